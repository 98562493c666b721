"""What comes back from the tracer: an exported graph as plain data. Everything in it is a stranger's claim.

These types are closed: a field that is not known, a name that is too long or a number out of range refuses the whole.
Which operators a graph may name is said in `operators`; that references point backwards only, here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from kernelwright.tasks.dtypes import DTYPES

FORMAT = 1
MOST_BYTES = 16 << 20
MOST_NODES = 50_000
MOST_ARGUMENTS = 4_000
MOST_SETTINGS = 512
MOST_LITERALS = 1 << 16  # numbers of one constant that the code writes out
LARGEST = (1 << 63) - 1  # which torch writes for the open end of a slice

Name = Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_]{0,79}$")]
DtypeName = Annotated[str, Field(pattern=f"^({'|'.join(DTYPES)})$")]
Whole = Annotated[int, Field(ge=-LARGEST, le=LARGEST)]
Extent = Annotated[int, Field(ge=0, le=1 << 40)]
Finite = Annotated[float, Field(allow_inf_nan=False)]
Index = Annotated[int, Field(ge=0, lt=MOST_NODES + MOST_ARGUMENTS)]
Expression = Annotated[str, Field(pattern=r"^[A-Za-z0-9_ +*/()-]{1,200}$")]


class _Closed(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


class NodeValue(_Closed):
    """What an earlier node gave: arguments of the graph come first, in order, then its nodes."""

    node: Index


class ListValue(_Closed):
    items: Annotated[list[Value], Field(max_length=4096)]


class DtypeValue(_Closed):
    dtype: DtypeName


class OddFloat(_Closed):
    """A number that JSON does not have."""

    number: Literal["inf", "-inf", "nan"]


class TextValue(_Closed):
    text: Annotated[str, Field(max_length=200)]


class MemoryFormat(_Closed):
    memory_format: Literal["contiguous_format", "preserve_format", "channels_last", "channels_last_3d"]


class SameDevice(_Closed):
    """The device of the arguments, wherever the reference runs."""

    device: Literal["same"]


Value = (
    NodeValue | ListValue | DtypeValue | OddFloat | TextValue | MemoryFormat | SameDevice | bool | Whole | Finite | None
)


class OperatorCall(_Closed):
    kind: Literal["call"] = "call"
    op: Annotated[str, Field(pattern=r"^(aten|sym)\.[A-Za-z_0-9]{1,60}(\.[A-Za-z_0-9]{1,60})?$")]
    args: Annotated[list[Value], Field(max_length=32)] = []
    kwargs: Annotated[dict[Name, Value], Field(max_length=16)] = {}


class Literals(_Closed):
    """A tensor whose values the code writes out."""

    kind: Literal["literals"] = "literals"
    dtype: DtypeName
    shape: Annotated[list[Extent], Field(max_length=16)]
    values: Annotated[list[bool | Whole | Finite | Literal["inf", "-inf", "nan"]], Field(max_length=MOST_LITERALS)]


class DrawnNumbers(_Closed):
    """Random numbers inside a recipe. Without a shape it is that of the argument which the recipe draws."""

    kind: Literal["drawn"] = "drawn"
    of: Literal["uniform", "normal", "integers", "bernoulli", "permutation"]
    low: Finite | Whole = 0
    high: Finite | Whole = 1
    dtype: DtypeName
    shape: Annotated[list[Extent], Field(max_length=16)] | None = None


Node = Annotated[OperatorCall | Literals | DrawnNumbers, Field(discriminator="kind")]


class TracedLine(_Closed):
    """The line of one of the problem's files that a node comes from, which messages name."""

    node: Index
    file: Annotated[str, Field(pattern=r"^[\w.-]{1,120}$")]
    line: Annotated[int, Field(ge=1, le=1 << 24)]


class Recipe(_Closed):
    """How an argument is made of random numbers, where no single distribution says it: `triu(rand(n, n))`."""

    kind: Literal["recipe"] = "recipe"
    nodes: Annotated[list[Node], Field(max_length=500)]
    result: Index


class Distribution(_Closed):
    """`high` of whole numbers is excluded, and may be a size. Of a normal, `low` is the mean and `high` the spread."""

    kind: Literal["distribution"] = "distribution"
    of: Literal["uniform", "normal", "integers"]
    low: Finite | Whole
    high: Finite | Whole | Name


class AnyFamily(_Closed):
    """Ordinary data: drawn from every input family. `otherwise` is how the problem draws it, for a reference that the
    families would take out of its domain."""

    kind: Literal["families"] = "families"
    otherwise: Distribution | None = None


class TracedArgument(_Closed):
    """`path` is the name of a parameter or buffer in its module."""

    name: Name
    path: Annotated[str, Field(pattern=r"^[\w.]{0,200}$")] = ""
    dims: Annotated[list[Extent | Expression], Field(max_length=16)]
    dtype: DtypeName
    draw: Annotated[AnyFamily | Distribution | Recipe, Field(discriminator="kind")]
    part: Literal["input", "parameter", "buffer"]


class TracedSize(_Closed):
    """A size that may vary: the problem's own value, and what its code allows (None: no upper end)."""

    name: Name
    value: Annotated[int, Field(ge=1, le=1 << 40)]
    least: Annotated[int, Field(ge=0, le=1 << 40)]
    most: Annotated[int, Field(ge=1, le=1 << 62)] | None = None


class TracedNumber(_Closed):
    """A number that the reference is called with, between its tensors. It is part of what is computed, and a kernel is
    told it: `place` is where it stands among all arguments."""

    name: Name
    value: bool | Whole | Finite
    place: Annotated[int, Field(ge=0, lt=2 * MOST_ARGUMENTS)]


class TracedSetting(_Closed):
    """One of the settings that a problem comes with, by its number from 1, where the graph covers it."""

    number: Annotated[int, Field(ge=1, le=MOST_SETTINGS)]
    sizes: Annotated[dict[Name, Annotated[int, Field(ge=1, le=1 << 40)]], Field(max_length=64)]


class Tolerance(_Closed):
    """What a problem's own benchmark allows: shown, and never used to accept."""

    max_atol: Annotated[float, Field(ge=0)]
    max_rtol: Annotated[float, Field(ge=0)]
    required_matched_ratio: Annotated[float, Field(ge=0, le=1)]
    max_error_cap: Annotated[float, Field(ge=0)] | None = None


class InitialList(_Closed):
    kind: Literal["list", "tuple"]
    items: Annotated[list[InitialValue], Field(max_length=4096)]


InitialValue = InitialList | OddFloat | TextValue | bool | Whole | Finite | None
"""What the constructor of a problem's module takes."""


class FixedInput(_Closed):
    """What the problem gives its module in every call at this place, and is not a tensor."""

    place: Annotated[int, Field(ge=0, le=64)]
    value: InitialValue


Note = Literal[
    "dropout",
    "batch_statistics",
    "changed_input",
    "fixed_sizes",
    "strided_input",
    "unwritten_input",
    "values_of_a_file",
    "failing_settings",
    "without_gradients",
    "drawn_numbers",
    "state_as_input",
]


class TracingCost(_Closed):
    """What tracing cost, for benchmarks; nothing depends on it."""

    cpu_seconds: Annotated[float, Field(ge=0, le=1e6)]
    peak_mib: Annotated[int, Field(ge=0, le=1 << 30)]


class TracedProblem(_Closed):
    format: Literal[1]
    arguments: Annotated[list[TracedArgument], Field(min_length=1, max_length=MOST_ARGUMENTS)]
    sizes: Annotated[list[TracedSize], Field(max_length=64)]
    nodes: Annotated[list[Node], Field(max_length=MOST_NODES)]
    lines: Annotated[list[TracedLine], Field(max_length=MOST_NODES)] = []
    results: Annotated[list[Index], Field(min_length=1, max_length=64)]
    notes: Annotated[list[Note], Field(max_length=16)] = []
    numbers: Annotated[list[TracedNumber], Field(max_length=64)] = []
    outputs: Annotated[list[Name], Field(max_length=64)] | None = None
    settings: Annotated[list[TracedSetting], Field(max_length=MOST_SETTINGS)] = []
    apart: Annotated[list[Annotated[int, Field(ge=1, le=MOST_SETTINGS)]], Field(max_length=MOST_SETTINGS)] = []
    tolerance: Tolerance | None = None
    initial: InitialList | None = None  # None where it is not a module, or not made of numbers and texts
    fixed: Annotated[list[FixedInput], Field(max_length=64)] = []
    spent: TracingCost | None = None

    @property
    def names(self) -> list[str]:
        """Of tensors and numbers."""
        return [*_names(self.arguments), *_names(self.numbers)]

    @model_validator(mode="after")
    def _points_backwards(self) -> TracedProblem:
        _check_order(self.nodes, len(self.arguments), self.results)
        names = [*self.names, *(self.outputs or [])]
        sizes = [size.name for size in self.sizes]
        if len(set(names)) != len(names) or len(set(sizes)) != len(sizes):
            raise ValueError("two arguments, results or sizes have one name")
        if self.outputs is not None and len(self.outputs) != len(self.results):
            raise ValueError("there are not as many names as results")
        places = [number.place for number in self.numbers]
        if len(set(places)) != len(places) or any(place >= len(names) for place in places):
            raise ValueError("a number has no place among the arguments")
        if any(set(setting.sizes) != set(sizes) for setting in self.settings):
            raise ValueError("a setting names other sizes")
        if any(isinstance(node, DrawnNumbers) for node in self.nodes):
            raise ValueError("a reference draws no random numbers")
        for argument in self.arguments:
            if isinstance(argument.draw, Recipe):
                _check_order(argument.draw.nodes, 0, [argument.draw.result])
        return self


def _names(named: Sequence[TracedArgument | TracedNumber]) -> list[str]:
    return [one.name for one in named]


def _check_order(nodes: list[OperatorCall | Literals | DrawnNumbers], before: int, results: list[int]) -> None:
    for place, node in enumerate(nodes):
        if isinstance(node, OperatorCall) and any(
            index >= before + place for index in references((*node.args, *node.kwargs.values()))
        ):
            raise ValueError(f"node {place} uses what comes after it")
    if any(result >= before + len(nodes) for result in results):
        raise ValueError("a result is not one of the nodes")


def references(values: tuple[Value, ...] | list[Value]) -> list[int]:
    """The nodes that a call uses, however deep in lists."""
    found: list[int] = []
    for value in values:
        if isinstance(value, NodeValue):
            found.append(value.node)
        elif isinstance(value, ListValue):
            found += references(value.items)
    return found
