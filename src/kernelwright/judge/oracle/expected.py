"""What a result is held against, in the form that is quickest to check: one type per kind of comparison."""

from __future__ import annotations

from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Within:
    """Right where `low <= got <= high`, all in the result's dtype. The reference lies halfway.

    Where the reference is NaN, `nan` is set and the bounds admit nothing else. Infinities bound themselves.
    """

    low: torch.Tensor
    high: torch.Tensor
    nan: torch.Tensor | None = None

    @property
    def nbytes(self) -> int:
        return self.low.nbytes + self.high.nbytes + (0 if self.nan is None else self.nan.nbytes)

    @property
    def size(self) -> int:
        return self.low.numel()


@dataclass(frozen=True)
class Same:
    """Right where it has the same bits; one NaN is as good as another."""

    value: torch.Tensor

    @property
    def nbytes(self) -> int:
        return self.value.nbytes

    @property
    def size(self) -> int:
        return self.value.numel()


@dataclass(frozen=True)
class Choice:
    """Indices along `dim` of `source`, right where the value found there is `best`; distinct along `dim`.

    `source` belongs to the trial's inputs and is not counted again.
    """

    source: torch.Tensor
    best: torch.Tensor
    dim: int

    @property
    def nbytes(self) -> int:
        return self.best.nbytes

    @property
    def size(self) -> int:
        return self.best.numel()


Expectation = Within | Same | Choice
