"""Where a reference jumps: masks and steps over computed values, and what the other side of them would
give.

An honest kernel whose z is a rounding error away from the reference's takes the other side of `z > 0` where
z is that close to zero, and a gradient then differs by a whole term. Such sites are found while the
reference runs: `DISCONTINUITIES` says which operations have one, and where. Each is given the width that rounding has
there, and the reference is evaluated again with the values inside that width moved to one side. Values that
are inputs, or that come out of the same discontinuity, are compared exactly by every kernel and are left alone.

A new kind of discontinuity is a new entry of `DISCONTINUITIES`. Near-ties between computed values (max pooling behind a
convolution) are not there yet; pooling over raw inputs needs nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeGuard

import torch

from kernelwright.judge.oracle.right.constants import CONSTANTS
from kernelwright.judge.oracle.right.scales import row_scale

Threshold = float | torch.Tensor
Thresholds = tuple[Threshold, ...]
aten = torch.ops.aten


@dataclass(frozen=True)
class Discontinuity:
    """Which argument of an operation is compared, and with what."""

    argument: int
    thresholds: Callable[[tuple[Any, ...]], Thresholds]


def _at(*thresholds: float) -> Callable[[tuple[Any, ...]], Thresholds]:
    return lambda _: thresholds


def _given(*positions: int) -> Callable[[tuple[Any, ...]], Thresholds]:
    return lambda args: tuple(args[position] for position in positions)


def _plus_minus(position: int) -> Callable[[tuple[Any, ...]], Thresholds]:
    return lambda args: (args[position], -args[position])


# relu itself is here, because autograd keeps relu's result for its mask, and on the negative side of zero the
# result no longer shows how close the value was.
DISCONTINUITIES: dict[Any, Discontinuity] = {
    aten.relu.default: Discontinuity(0, _at(0.0)),
    aten.relu_.default: Discontinuity(0, _at(0.0)),
    aten.sgn.default: Discontinuity(0, _at(0.0)),
    aten.sign.default: Discontinuity(0, _at(0.0)),
    aten.threshold.default: Discontinuity(0, _given(1)),
    aten.threshold_backward.default: Discontinuity(1, _given(2)),
    aten.leaky_relu_backward.default: Discontinuity(1, _at(0.0)),
    aten.hardtanh_backward.default: Discontinuity(1, _given(2, 3)),
    aten.hardsigmoid_backward.default: Discontinuity(1, _at(-3.0, 3.0)),
    aten.hardswish_backward.default: Discontinuity(1, _at(-3.0, 3.0)),
    aten.hardshrink.default: Discontinuity(0, lambda args: _plus_minus(1)(args) if len(args) > 1 else (0.5, -0.5)),
    aten.hardshrink_backward.default: Discontinuity(1, _plus_minus(2)),
    aten.softshrink_backward.default: Discontinuity(1, _plus_minus(2)),
    **{
        getattr(getattr(aten, name), form): Discontinuity(0, _given(1))
        for name in ("gt", "ge", "lt", "le")
        for form in ("Scalar", "Tensor")
    },
}


@dataclass
class Site:
    """A comparison that the reference makes: how far the value lies from one place, and how far that strays.

    `exact` sites compare what every kernel has exactly: inputs, or what came out of the same discontinuity before.
    """

    gap: torch.Tensor
    exact: bool
    strayed: torch.Tensor | None = None
    width: torch.Tensor | None = None

    def pin(self, value: torch.Tensor, threshold: Threshold) -> torch.Tensor:
        """A perturbed value, put back where it changed sides, so that a probe sees the smooth part alone."""
        gap = value - threshold
        if gap.shape != self.gap.shape:  # a reference that branches on its data went another way
            return value
        if not self.exact:
            strayed = (gap - self.gap).abs_()
            self.strayed = strayed if self.strayed is None else self.strayed.add_(strayed)
        stays = (torch.sign(gap) == torch.sign(self.gap)) | torch.isnan(gap)  # a probe that overflowed must show it
        return torch.where(stays, value, threshold + self.gap)

    def widen(self, reach: float) -> bool:
        """Sets the width from what the probes saw, as a tolerance is set; tells whether any value lies inside."""
        if not self.exact and self.strayed is not None:
            strayed = self.strayed.nan_to_num_(0.0, 0.0, 0.0).mul_(reach)
            width = torch.maximum(strayed, row_scale(strayed, CONSTANTS.least_row, nonzero=True))
            if bool((self.gap.abs() <= width).any()):
                self.width = width
        self.strayed = None
        return self.width is not None

    def push(self, value: torch.Tensor, threshold: Threshold, towards: torch.Tensor | float) -> torch.Tensor:
        """A value with everything inside the width moved to its edge: up where `towards` is 1, down where -1."""
        if self.width is None or (value - threshold).shape != self.gap.shape:
            return value
        return torch.where(self.gap.abs() <= self.width, threshold + self.width * towards, value)


class Sites:
    """The sites of a reference in the order in which it reaches them, recorded in the dtype of the probes."""

    def __init__(self, inputs: Iterable[torch.Tensor], form: torch.dtype) -> None:
        self.found: list[Site] = []
        self._form = form
        self._inputs = {_storage(tensor) for tensor in inputs}
        self._settled: dict[int, tuple[float, ...]] = {}
        self._held: list[torch.Tensor] = []

    def record(self, value: torch.Tensor, thresholds: Thresholds) -> None:
        exact = self._is_input(value) and all(self._is_input(threshold) for threshold in thresholds)
        exact = exact or (_plain(thresholds) and self._settled.get(_storage(value)) == thresholds)
        self.found += [Site((value - threshold).to(self._form), exact) for threshold in thresholds]

    def settle(self, result: torch.Tensor, thresholds: Thresholds) -> None:
        """Remembers what came out of a discontinuity, and holds it, so that its storage cannot serve another tensor."""
        if _plain(thresholds):
            self._settled[_storage(result)] = thresholds
            self._held.append(result)

    def complete(self) -> None:
        """The reference has run: nothing needs to be held any more."""
        self._held.clear()

    def _is_input(self, value: Threshold) -> bool:
        return not isinstance(value, torch.Tensor) or _storage(value) in self._inputs


def _plain(thresholds: Thresholds) -> TypeGuard[tuple[float, ...]]:
    return not any(isinstance(threshold, torch.Tensor) for threshold in thresholds)


def _storage(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().data_ptr()
