"""How the values of an argument are drawn, as declarations; `realise` carries them out.

A draw is part of what a task is, so it is a value that can be shown, compared and written to a certificate.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from kernelwright.tasks.dims import Dim, TaskError


class Family(StrEnum):
    """An input family. Trials rotate through them, so that no kernel passes by the luck of one distribution.

    `shifted` has a mean far from zero (cancellation), `heavy_tail` the tails of Student's t with three
    degrees of freedom, `spikes` a few large values over small noise (one-hot-like, without ties), `wide` rows
    whose scales lie between 2^-6 and 2^6, and `small` a scale of 1e-3 (epsilons matter).
    """

    NORMAL = "normal"
    SHIFTED = "shifted"
    HEAVY_TAIL = "heavy_tail"
    SPIKES = "spikes"
    WIDE = "wide"
    SMALL = "small"


FAMILIES = tuple(Family)


@dataclass(frozen=True)
class OfFamily:
    """Drawn from the trial's input family: the default, and the only draw that changes between trials."""

    def __str__(self) -> str:
        return "input family"


@dataclass(frozen=True)
class Normal:
    mean: float
    std: float

    def __post_init__(self) -> None:
        if not (math.isfinite(self.mean) and math.isfinite(self.std) and self.std > 0):
            raise TaskError(f"{self} needs a finite mean and a positive std: constants let wrong kernels pass")

    def __str__(self) -> str:
        return f"normal({self.mean:g}, {self.std:g})"


@dataclass(frozen=True)
class Uniform:
    low: float
    high: float

    def __post_init__(self) -> None:
        if not (math.isfinite(self.low) and math.isfinite(self.high) and self.low < self.high):
            raise TaskError(f"{self} needs finite bounds, low < high: constants let wrong kernels pass")

    def __str__(self) -> str:
        return f"uniform({self.low:g}, {self.high:g})"


@dataclass(frozen=True)
class Integers:
    """Whole numbers from `low` up to but without `high`; either may be a dimension such as "classes"."""

    low: Dim
    high: Dim

    def __str__(self) -> str:
        return f"integers({self.low}, {self.high})"


@dataclass(frozen=True)
class Custom:
    """`function(generator, shape, dtype, sizes)` returns the tensor; for what the others cannot express."""

    function: Callable[..., Any]

    def __str__(self) -> str:
        return f"custom({getattr(self.function, '__name__', 'function')})"


Draw = OfFamily | Normal | Uniform | Integers | Custom


def of_family() -> OfFamily:
    return OfFamily()


def normal(mean: float = 0.0, std: float = 1.0) -> Normal:
    return Normal(mean, std)


def uniform(low: float, high: float) -> Uniform:
    return Uniform(low, high)


def integers(low: Dim, high: Dim) -> Integers:
    return Integers(low, high)


def custom(function: Callable[..., Any]) -> Custom:
    return Custom(function)
