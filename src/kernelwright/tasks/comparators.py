"""How a result is compared with its reference. A task names one per result; the oracle carries it out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Close:
    """Within the derived tolerance, element by element. The default for floating-point results."""


@dataclass(frozen=True)
class Exact:
    """Bit for bit. The default for integer and boolean results."""


@dataclass(frozen=True)
class Chosen:
    """Indices along `dim` of `source`: right if the value found there is, within tolerance, the best one.

    For argmax and argmin (one index) and top-k (several along `dim`, in order). The value at a chosen index
    is compared with the value at the reference's index, so either side of a tie is right and nothing else is.
    """

    source: str
    dim: int = -1
    keepdim: bool = False


@dataclass(frozen=True)
class Rounded:
    """A rounded quantity: equal to the reference, or one step away where the unrounded value is at a tie.

    `exact` maps the inputs to the unrounded quantity in float64.
    """

    exact: Callable[..., Any]

    def __str__(self) -> str:
        return f"Rounded({getattr(self.exact, '__name__', 'function')})"


Comparator = Close | Exact | Chosen | Rounded
