"""What a task is: a reference, how its inputs are drawn, and where it has to hold.

Everything here is a value. Shapes are written with named sizes ("rows"), so that one declaration serves
every workload and the judge can choose hidden ones.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from kernelwright.tasks.declarations import (
    DTYPES,
    FAMILIES,
    FLOATS,
    CallArgument,
    Close,
    Comparator,
    Exact,
    Family,
    Input,
    Saved,
    Scalar,
    TensorInput,
    Upstream,
    tensor,
)
from kernelwright.tasks.dims import Dim, Sizes, TaskError, described, evaluate
from kernelwright.tasks.signatures import ModuleForm, ScalarSpec, Signature, TensorSpec
from kernelwright.tasks.source_lines import SourceMap
from kernelwright.tasks.structure import check_structure

__all__ = [
    "DTYPES",
    "FLOATS",
    "Dim",
    "Input",
    "ModuleForm",
    "Precision",
    "Pullback",
    "Saved",
    "Scalar",
    "ScalarSpec",
    "Signature",
    "Sizes",
    "Task",
    "TaskError",
    "TensorInput",
    "TensorSpec",
    "Upstream",
    "Workload",
    "Workloads",
    "evaluate",
    "tensor",
]


@dataclass(frozen=True)
class Precision:
    """What the comparison allows, in units that a task rarely has to touch.

    `compute` is the precision in which an honest kernel accumulates; `slack` multiplies the derived tolerance
    of a task whose operation is known to amplify rounding beyond what the judge's probes see.
    """

    compute: str = "float32"
    slack: float = 1.0

    def __post_init__(self) -> None:
        if self.compute not in FLOATS:
            raise TaskError(f"Precision.compute is {self.compute!r}: write one of {', '.join(FLOATS)}")
        if not self.slack >= 1:
            raise TaskError(f"Precision.slack is {self.slack!r}: it widens the tolerance, so at least 1")


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
        sizes = described(self.size_map)
        return sizes if self.dtype == "float32" else f"{sizes} {self.dtype}".strip()

    @property
    def shown(self) -> str:
        """What any error may say: the label, unless the sizes are secret."""
        return "a hidden workload" if self.hidden else self.label


@dataclass(frozen=True)
class Workloads:
    """Where a task has to hold on one kind of device, in place of the task's own `public` and `hidden`."""

    public: Sequence[Mapping[str, int]]
    hidden: Mapping[str, tuple[int, int]]


class Pullback(Protocol):
    """A backward in two goes, as training has it."""

    @property
    def forward(self) -> Callable[..., Any]: ...

    def begin(self, forward: Callable[..., Any], arguments: Sequence[Any]) -> Callable[[], Any]:
        """Calls `forward`, the task's or one that was compiled from it, and returns what is left to do."""


@dataclass(frozen=True)
class Task:
    """What must be computed. See docs/tasks.md for how to write one.

    A task is checked when it is made, as far as that goes without running it; `validate` does the rest.
    """

    reference: Callable[..., Any]
    inputs: Mapping[str, Input]
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
    vjp: Callable[..., Any] | None = None
    work: Dim | None = None
    cuda: Workloads | None = None
    unchecked: tuple[str, ...] = ()  # kinds of special values (`ValueKind`) that the judge leaves out
    direction: str = "forward"
    origin: str = ""
    files: tuple[str, ...] = ()  # of an imported task, all that it consists of
    pullback: Pullback | None = None  # of a derived backward
    traced: bool = False  # the reference is a graph of listed operators, pure by the way it was made
    notes: tuple[str, ...] = ()  # of what an imported task leaves out or takes otherwise, for lint
    baselines: Mapping[str, Callable[..., Any]] = field(default_factory=dict)  # `--baseline own:NAME`, as the reference
    lines: SourceMap = field(default_factory=dict)  # of code that was written for the task: whose lines they stand for
    call: tuple[CallArgument, ...] = ()  # how the function is called that the task was captured from
    form: dict[str, Any] | None = None  # and what it gives back: `Form` in export/standalone/manifest.py
    module: ModuleForm | None = None  # of a task that was a module

    def __post_init__(self) -> None:
        check_structure(self)
        if self.cuda is not None:
            try:
                self.on("cuda")
            except TaskError as error:
                raise TaskError(f"cuda=Workloads(...): {error}") from error

    @property
    def result_names(self) -> tuple[str, ...]:
        """What is compared: the tensors changed in place, in order of declaration, then the outputs."""
        return (*(name for name in self.inputs if name in self.inout), *self.outputs)

    def comparator(self, result: str, dtype: str = "float32") -> Comparator:
        """The declared comparator, or else the default for results of `dtype`."""
        return self.comparators.get(result, Close() if dtype in FLOATS else Exact())

    def named(self, name: str, origin: str = "", doc: str = "") -> Task:
        return replace(self, name=self.name or name, origin=origin, doc=self.doc or doc)

    def on(self, device: str) -> Task:
        """The task on a kind of device, or on one such device: "cpu", "cuda" or "cuda:1"."""
        kind, _, number = device.partition(":")
        if kind not in ("cpu", "cuda") or not (number.isdecimal() or device == kind):
            raise TaskError(f"device {device!r} is not known: write cpu, cuda or cuda:N")
        if kind == "cpu" or self.cuda is None:
            return self
        return replace(self, public=self.cuda.public, hidden=self.cuda.hidden, cuda=None)

    def public_workloads(self) -> tuple[Workload, ...]:
        return tuple(Workload(tuple(sizes.items()), dtype) for dtype in self.dtypes for sizes in self.public)
