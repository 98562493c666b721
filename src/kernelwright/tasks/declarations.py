"""What a task file declares: how arguments are shaped and drawn, and how results are compared.

Declarations are values that can be shown, compared and written to a certificate. `tasks.drawing` draws from them and
the oracle compares by them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from kernelwright.tasks.dims import Dim, Sizes, TaskError, described, evaluate
from kernelwright.tasks.dtypes import DTYPES as DTYPES
from kernelwright.tasks.dtypes import FLOATS as FLOATS
from kernelwright.tasks.signatures import Scalar as Scalar

if TYPE_CHECKING:
    from kernelwright.tasks.model import Task


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


class ValueKind(StrEnum):
    """A kind of special values. The judge finds out from the reference which of them a kernel must get right; a task
    may name kinds that are not to be checked.

    `magnitudes` are values far larger or smaller than those of any family, `signs` parameters of either sign and zero,
    `masks` booleans that are all true or all false, `integers` the ends of a range, repeated numbers, and numbers that
    the reference itself compares with. `products` are factors of very different sizes in products of few terms.
    """

    magnitudes = "magnitudes"
    signs = "signs"
    zeros = "zeros"
    subnormals = "subnormals"
    nan = "nan"
    infinities = "infinities"
    ties = "ties"
    constant_rows = "constant_rows"
    masks = "masks"
    integers = "integers"
    products = "products"


@dataclass(frozen=True)
class FamilyDraw:
    """Drawn from the trial's input family: the default, and the only draw that changes between trials."""

    def __str__(self) -> str:
        return "input family"


@dataclass(frozen=True)
class NormalDraw:
    mean: float
    std: float

    def __post_init__(self) -> None:
        if not (math.isfinite(self.mean) and math.isfinite(self.std) and self.std > 0):
            raise TaskError(f"{self} needs a finite mean and a positive std: constants let wrong kernels pass")

    def __str__(self) -> str:
        return f"normal({self.mean:g}, {self.std:g})"


@dataclass(frozen=True)
class UniformDraw:
    low: float
    high: float

    def __post_init__(self) -> None:
        if not (math.isfinite(self.low) and math.isfinite(self.high) and self.low < self.high):
            raise TaskError(f"{self} needs finite bounds, low < high: constants let wrong kernels pass")

    def __str__(self) -> str:
        return f"uniform({self.low:g}, {self.high:g})"


@dataclass(frozen=True)
class IntegerDraw:
    """Whole numbers from `low` up to but without `high`; either may be a dimension such as "classes"."""

    low: Dim
    high: Dim

    def __str__(self) -> str:
        return f"integers({self.low}, {self.high})"


@dataclass(frozen=True)
class CustomDraw:
    """`function(generator, shape, dtype, sizes)` returns the tensor; for what the others cannot express. `whole`: the
    whole numbers that it draws from, for the self-test of an exported kernel."""

    function: Callable[..., Any]
    whole: tuple[int, int] | None = None

    def __str__(self) -> str:
        return f"custom({getattr(self.function, '__name__', 'function')})"


Draw = FamilyDraw | NormalDraw | UniformDraw | IntegerDraw | CustomDraw


def of_family() -> FamilyDraw:
    return FamilyDraw()


def normal(mean: float = 0.0, std: float = 1.0) -> NormalDraw:
    return NormalDraw(mean, std)


def uniform(low: float, high: float) -> UniformDraw:
    return UniformDraw(low, high)


def integers(low: Dim, high: Dim) -> IntegerDraw:
    return IntegerDraw(low, high)


def custom(function: Callable[..., Any]) -> CustomDraw:
    return CustomDraw(function)


@dataclass(frozen=True)
class TensorInput:
    """How one tensor argument is shaped and drawn. `dtype=None` means the workload's dtype.

    `gradient=False` leaves a floating-point argument out of the derived backward.
    """

    dims: tuple[Dim, ...]
    draw: Draw = field(default_factory=of_family)
    dtype: str | None = None
    gradient: bool = True

    def shape(self, sizes: Sizes) -> tuple[int, ...]:
        shape = tuple(evaluate(dim, sizes) for dim in self.dims)
        for dim, value in zip(self.dims, shape, strict=True):
            if value < 1:
                raise TaskError(f"dimension {dim!r} is {value} for {described(sizes)}: it must be at least 1")
        return shape


def tensor(*dims: Dim, draw: Draw | None = None, dtype: str | None = None, gradient: bool = True) -> TensorInput:
    """Declares a tensor argument: `tensor("rows", "cols")`, drawn from the trial's family by default."""
    return TensorInput(tuple(dims), draw or of_family(), dtype, gradient)


@dataclass(frozen=True)
class CallArgument:
    """A parameter of the function that a task was captured from, in that function's order.

    `input` names the task's input that it becomes. Without one it is a number (or None) that is built into the
    reference, or, if `unused`, a tensor that the function does not look at.
    """

    name: str
    input: str | None = None
    number: Scalar | None = None
    unused: bool = False
    default: Scalar | None = None
    held: str = ""  # of a module: the name of the parameter or buffer that it is
    values: Any = None  # of a tensor that the code itself writes out: its values, in nested lists


@dataclass(frozen=True)
class Saved:
    """An extra tensor that the forward pass keeps for its backward: computed from the forward's arguments."""

    forward: Task = field(repr=False)
    function: Callable[..., Any]


@dataclass(frozen=True)
class Upstream:
    """The gradient that arrives for one output of the forward; it takes that output's shape and dtype."""

    forward: Task = field(repr=False)
    output: str
    draw: Draw = field(default_factory=of_family)


Input = TensorInput | Saved | Upstream | Scalar


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
