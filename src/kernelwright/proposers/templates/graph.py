"""The typed graph of a reference, which patterns look at, and its builder, with which operations of torch are lowered.

Sizes and numbers are symbolic, no value is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

from kernelwright.errors import KernelwrightError
from kernelwright.tasks.source_lines import SourceLine


class CannotExpressError(KernelwrightError):
    """A reference that no template covers; the message names the operation and the author's line."""


OTHERS = "another proposer may write it: --proposer llm asks a model, files asks you"


@dataclass(frozen=True)
class Extent:
    """A size, known by what it was in two traces with different sizes: equal ones are constants of the reference."""

    first: int
    second: int

    def __mul__(self, other: Extent) -> Extent:
        return Extent(self.first * other.first, self.second * other.second)

    @property
    def literal(self) -> int | None:
        return self.first if self.first == self.second else None

    @property
    def single(self) -> bool:
        return self.first == 1 and self.second == 1


Shape = tuple[Extent, ...]
ONE = Extent(1, 1)


def total(shape: Shape) -> Extent:
    return Extent(prod(extent.first for extent in shape), prod(extent.second for extent in shape))


@dataclass(frozen=True)
class Formula:
    """A number that follows from scalar arguments: an operator over formulas, argument names and literals."""

    operator: str  # "+", "-", "*", "/", "pow", "sqrt" or "neg"
    operands: tuple[Formula | Extent | str | float, ...]


Number = float | int | bool | Extent | Formula | str  # a str names a scalar argument


@dataclass(frozen=True)
class Node:
    """One value. `inputs` are places of earlier nodes in the graph."""

    shape: Shape
    dtype: str
    inputs: tuple[int, ...] = ()


@dataclass(frozen=True)
class ArgumentNode(Node):
    name: str = ""


@dataclass(frozen=True)
class Constant(Node):
    value: Number = 0.0


@dataclass(frozen=True)
class Pointwise(Node):
    """An elementwise operation; operands broadcast as in torch."""

    operation: str = ""


@dataclass(frozen=True)
class Reduce(Node):
    """Over `dims`, counted from the front of its input."""

    operation: str = ""  # "sum", "prod", "max", "min", "any", "all", "argmax" or "argmin"
    dims: tuple[int, ...] = ()


@dataclass(frozen=True)
class Gather(Node):
    """The element of input 0 at index input 1 along the last dimension."""


@dataclass(frozen=True)
class Scatter(Node):
    """Zero but where the last dimension's index input 0 puts the elements of input 1."""


@dataclass(frozen=True)
class Position(Node):
    """The place along the last dimension."""


@dataclass(frozen=True)
class ViewNode(Node):
    """The same elements in the same order under another shape."""


@dataclass(frozen=True)
class Broadcast(Node):
    """Its input, repeated along dimensions of size one."""


@dataclass(frozen=True)
class Permute(Node):
    dims: tuple[int, ...] = ()


@dataclass(frozen=True)
class Matmul(Node):
    """Two matrices, or two stacks of matrices."""


@dataclass(frozen=True)
class Window:
    """What convolutions and pooling slide: two numbers each, for height and width."""

    kernel: tuple[int, int]
    stride: tuple[int, int]
    padding: tuple[int, int]
    dilation: tuple[int, int] = (1, 1)


UNIT = Window((1, 1), (1, 1), (0, 0))


@dataclass(frozen=True)
class PoolNode(Node):
    """Maximum over windows of input 0."""

    window: Window = UNIT


@dataclass(frozen=True)
class PoolPlaces(Node):
    """Where the maxima of a pooling lie. Only its backward asks, and it finds them again."""


@dataclass(frozen=True)
class PoolBackward(Node):
    """Sends input 0 to the first maximum of each window of input 1."""

    window: Window = UNIT


@dataclass(frozen=True)
class Convolution(Node):
    """Input 0 with weight input 1, without a bias."""

    window: Window = UNIT
    groups: int = 1


@dataclass(frozen=True)
class ConvolutionInput(Node):
    """Gradient of a convolution towards its input: from gradient input 0 and weight input 1."""

    window: Window = UNIT
    groups: int = 1


@dataclass(frozen=True)
class ConvolutionWeight(Node):
    """Gradient of a convolution towards its weight: from gradient input 0 and the convolution's input 1."""

    window: Window = UNIT
    groups: int = 1


@dataclass(frozen=True)
class Result:
    name: str
    node: int


@dataclass(frozen=True)
class GraphTensor:
    """A tensor of the signature, in the order in which a kernel receives it."""

    name: str
    dtype: str
    shape: Shape
    role: str


@dataclass(frozen=True)
class Origin:
    """Where a node comes from: the operation of torch that it was lowered from, and the author's line."""

    operation: str
    line: SourceLine | None = None

    def __str__(self) -> str:
        return self.operation if self.line is None else f"{self.operation} at {self.line}"


@dataclass(frozen=True)
class Graph:
    task: str
    nodes: tuple[Node, ...]
    results: tuple[Result, ...]
    tensors: tuple[GraphTensor, ...]
    scalars: tuple[str, ...]
    closed: tuple[tuple[Extent, str], ...] = ()  # sizes that follow from others: closed_forms.py
    unclear: frozenset[Extent] = frozenset()  # different sizes that were the same in both traces
    origins: tuple[Origin | None, ...] = ()  # of each node
    largest: tuple[tuple[Extent, int], ...] = ()  # sizes of the task's domain, for dimensions of arguments

    def most(self, extent: Extent) -> int | None:
        """The largest that a size becomes, where that is known."""
        return extent.literal if extent.literal is not None else dict(self.largest).get(extent)

    def origin(self, place: int) -> Origin | None:
        return self.origins[place] if place < len(self.origins) else None


@dataclass(frozen=True)
class NodeRef:
    """A node, by its number in the graph."""

    node: int


Merged = NodeRef | tuple[NodeRef, ...] | Number | Sequence[Any] | None
Lowered = NodeRef | tuple[NodeRef, ...]


@dataclass
class GraphBuilder:
    """Collects nodes; equal ones are one node, so that nothing is computed twice."""

    task: str
    nodes: list[Node] = field(default_factory=list)
    origins: list[Origin | None] = field(default_factory=list)
    origin: Origin | None = None  # of what is added now
    _known: dict[Node, int] = field(default_factory=dict)

    def add(self, node: Node) -> NodeRef:
        if node not in self._known:
            self._known[node] = len(self.nodes)
            self.nodes.append(node)
            self.origins.append(self.origin)
        return NodeRef(self._known[node])

    def forget(self, count: int) -> None:
        """What was added after the first `count` nodes."""
        for node in self.nodes[count:]:
            del self._known[node]
        del self.nodes[count:]
        del self.origins[count:]

    def constant(self, value: Number, dtype: str) -> NodeRef:
        return self.add(Constant((), dtype, value=value))

    def pointwise(self, operation: str, operands: Sequence[Any], shape: Shape, dtype: str) -> NodeRef:
        """Numbers among the operands become constants in the dtype of the tensors beside them."""
        beside = next((self.nodes[o.node].dtype for o in operands if isinstance(o, NodeRef)), dtype)
        places = [o if isinstance(o, NodeRef) else self.constant(o, _wider(beside, o)) for o in operands]
        return self.add(Pointwise(shape, dtype, tuple(p.node for p in places), operation))

    def shape(self, place: NodeRef) -> Shape:
        return self.nodes[place.node].shape

    def dtype(self, place: NodeRef) -> str:
        return self.nodes[place.node].dtype


def _wider(dtype: str, value: Number) -> str:
    whole = isinstance(value, int | Extent)
    return dtype if whole or dtype.startswith(("float", "bfloat")) else "float32"


@dataclass(frozen=True)
class Call:
    builder: GraphBuilder
    name: str
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    shape: Shape
    dtype: str

    def get(self, place: int, name: str, default: Any = None) -> Any:
        return self.args[place] if place < len(self.args) else self.kwargs.get(name, default)

    def pointwise(self, operation: str, *operands: Any, dtype: str = "") -> NodeRef:
        return self.builder.pointwise(operation, operands, self.shape, dtype or self.dtype)

    def refuse(self, why: str = "") -> CannotExpressError:
        return not_covered(self.builder.task, self.name, self.builder.origin, why)


def not_covered(task: str, operation: str, origin: Origin | None, why: str = "") -> CannotExpressError:
    """Says which operation, why, on which line, and who else may write the kernel."""
    about = f" ({why})" if why else ""
    line = f" at {origin.line}" if origin is not None and origin.line is not None else ""
    return CannotExpressError(f"{task}: no template covers the operation {operation}{about}{line}; {OTHERS}")


Lowering = Callable[[Call], Lowered]


def reduced(call: Call, operation: str, place: NodeRef, dims: tuple[int, ...], dtype: str = "") -> NodeRef:
    """Always without the reduced dimensions; a view brings them back where the reference keeps them.

    Dimensions that are neither leading nor trailing are reduced in two steps, the trailing ones first.
    """
    given = call.builder.shape(place)
    rank = len(given)
    several = tuple(dim for dim in dims if not given[dim].single)
    if several != dims and operation in ("sum", "max", "min") and several:
        inner = reduced(call, operation, place, several, dtype)
        form = tuple(extent for dim, extent in enumerate(given) if dim not in dims)
        return call.builder.add(ViewNode(form, call.builder.dtype(inner), (inner.node,)))
    trailing = tuple(dim for dim in dims if all(d in dims for d in range(dim, rank)))
    if trailing and trailing != dims and operation in ("sum", "max", "min"):
        inner = reduced(call, operation, place, trailing, dtype)
        return reduced(call, operation, inner, tuple(dim for dim in dims if dim not in trailing), dtype)
    shape = tuple(extent for dim, extent in enumerate(call.builder.shape(place)) if dim not in dims)
    return call.builder.add(Reduce(shape, dtype or call.dtype, (place.node,), operation, dims))
