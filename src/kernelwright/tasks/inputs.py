"""The arguments of a task: tensors that are drawn, and those of a backward that follow from its forward."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kernelwright.tasks.dims import Dim, Sizes, TaskError, described, evaluate
from kernelwright.tasks.draws import Draw, of_family

if TYPE_CHECKING:
    from kernelwright.tasks.model import Task

Scalar = bool | int | float

DTYPES = ("float64", "float32", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool")
FLOATS = ("float64", "float32", "float16", "bfloat16")


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
