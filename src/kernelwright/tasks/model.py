"""What a task is: a reference, how its inputs are drawn, and where it has to hold.

Everything here is a value. Shapes are written with named sizes ("rows"), so that one declaration serves
every workload and the judge can choose hidden ones.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from kernelwright.tasks.comparators import Close, Comparator
from kernelwright.tasks.draws import FAMILIES, Draw, Family, of_family

Scalar = bool | int | float
Sizes = Mapping[str, int]
Dim = int | str

DTYPES = ("float64", "float32", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool")
FLOATS = ("float64", "float32", "float16", "bfloat16")


class TaskError(Exception):
    """A task that cannot be used, said in one line that names the file and the fix."""


_OPERATORS: dict[type, Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
}


def evaluate(dim: Dim, sizes: Sizes) -> int:
    """The value of a dimension such as 64, "rows" or "(height - 2) // 2 + 1" under a workload's sizes."""

    def walk(node: ast.expr) -> int:
        if isinstance(node, ast.Constant) and type(node.value) is int:
            return node.value
        if isinstance(node, ast.Name):
            if node.id not in sizes:
                raise TaskError(f"dimension {dim!r} needs a size named {node.id!r}, which the workload does not give")
            return sizes[node.id]
        if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
            return _OPERATORS[type(node.op)](walk(node.left), walk(node.right))
        raise TaskError(f"dimension {dim!r} may use whole numbers, names, + - * // and parentheses only")

    if isinstance(dim, int):
        return dim
    try:
        tree = ast.parse(dim, mode="eval")
    except SyntaxError as error:
        raise TaskError(f"dimension {dim!r} is not an expression") from error
    return walk(tree.body)


@dataclass(frozen=True)
class TensorInput:
    """How one tensor argument is shaped and drawn. `dtype=None` means the workload's dtype."""

    dims: tuple[Dim, ...]
    draw: Draw = field(default_factory=of_family)
    dtype: str | None = None
    gradient: bool = True

    def shape(self, sizes: Sizes) -> tuple[int, ...]:
        return tuple(evaluate(dim, sizes) for dim in self.dims)


def tensor(*dims: Dim, draw: Draw | None = None, dtype: str | None = None, gradient: bool = True) -> TensorInput:
    """Declares a tensor argument: `tensor("rows", "cols")`, drawn from the trial's input family by default."""
    return TensorInput(tuple(dims), draw or of_family(), dtype, gradient)


@dataclass(frozen=True)
class Precision:
    """What the comparison allows, in units that a task rarely has to touch.

    `compute` is the precision in which an honest kernel accumulates; `slack` multiplies the derived tolerance
    of a task whose operation is known to amplify rounding beyond what the judge's probes see.
    """

    compute: str = "float32"
    slack: float = 1.0


@dataclass(frozen=True)
class Workload:
    """One choice of sizes and dtype. `hidden` ones are drawn by the judge and never shown to an author."""

    sizes: tuple[tuple[str, int], ...]
    dtype: str = "float32"
    hidden: bool = False

    @property
    def size_map(self) -> dict[str, int]:
        return dict(self.sizes)

    @property
    def label(self) -> str:
        sizes = " ".join(f"{name}={value}" for name, value in self.sizes)
        return sizes if self.dtype == "float32" else f"{sizes} {self.dtype}"


@dataclass(frozen=True)
class TensorSpec:
    """A concrete tensor argument: what the arena reserves and what a contract declares."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    role: str  # "input", "constant", "inout" or "output"


@dataclass(frozen=True)
class ScalarSpec:
    name: str
    value: Scalar


@dataclass(frozen=True)
class Signature:
    """Arguments in the order in which a kernel receives them: inputs as declared, then outputs."""

    arguments: tuple[TensorSpec | ScalarSpec, ...]

    @property
    def tensors(self) -> tuple[TensorSpec, ...]:
        return tuple(a for a in self.arguments if isinstance(a, TensorSpec))


@dataclass(frozen=True)
class Task:
    """What must be computed. See docs/tasks.md for how to write one."""

    reference: Callable[..., Any]
    inputs: Mapping[str, TensorInput | Scalar]
    public: Sequence[Mapping[str, int]]
    hidden: Mapping[str, tuple[int, int]]
    name: str = ""
    doc: str = ""
    outputs: tuple[str, ...] = ("out",)
    dtypes: tuple[str, ...] = ("float32",)
    families: tuple[Family, ...] = FAMILIES
    precision: Precision = Precision()
    comparators: Mapping[str, Comparator] = field(default_factory=dict)
    inout: tuple[str, ...] = ()
    constant: tuple[str, ...] = ()
    saved: Mapping[str, Callable[..., Any]] = field(default_factory=dict)
    direction: str = "forward"
    origin: str = ""

    @property
    def result_names(self) -> tuple[str, ...]:
        """What is compared: the tensors changed in place, in order of declaration, then the outputs."""
        return (*(name for name in self.inputs if name in self.inout), *self.outputs)

    def comparator(self, result: str) -> Comparator:
        return self.comparators.get(result, Close())

    def named(self, name: str, origin: str = "", doc: str = "") -> Task:
        return replace(self, name=self.name or name, origin=origin, doc=self.doc or doc)

    def public_workloads(self) -> tuple[Workload, ...]:
        return tuple(Workload(tuple(sizes.items()), dtype) for dtype in self.dtypes for sizes in self.public)
