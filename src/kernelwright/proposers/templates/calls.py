"""What lowerings work with: the builder of the graph, and one call of an operation of torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kernelwright.proposers.templates.graph import (
    CannotExpressError,
    Constant,
    Extent,
    Node,
    Number,
    Pointwise,
    Reduce,
    Shape,
)


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
    _known: dict[Node, int] = field(default_factory=dict)

    def add(self, node: Node) -> NodeRef:
        if node not in self._known:
            self._known[node] = len(self.nodes)
            self.nodes.append(node)
        return NodeRef(self._known[node])

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
        about = f" ({why})" if why else ""
        return CannotExpressError(f"{self.builder.task}: no template covers the operation {self.name}{about}")


Lowering = Callable[[Call], Lowered]


def reduced(call: Call, operation: str, place: NodeRef, dims: tuple[int, ...], dtype: str = "") -> NodeRef:
    """Always without the reduced dimensions; a view brings them back where the reference keeps them.

    Dimensions that are neither leading nor trailing are reduced in two steps, the trailing ones first.
    """
    rank = len(call.builder.shape(place))
    trailing = tuple(dim for dim in dims if all(d in dims for d in range(dim, rank)))
    if trailing and trailing != dims and operation in ("sum", "max", "min"):
        inner = reduced(call, operation, place, trailing, dtype)
        return reduced(call, operation, inner, tuple(dim for dim in dims if dim not in trailing), dtype)
    shape = tuple(extent for dim, extent in enumerate(call.builder.shape(place)) if dim not in dims)
    return call.builder.add(Reduce(shape, dtype or call.dtype, (place.node,), operation, dims))
