"""Products of narrow numbers with scales: a scale that is one along the depth is taken out of the sum.

`(x.float() * sx) @ (w.float() * sw)` is `(x.float() @ w.float()) * sx * sw`, whose operands a contraction reads as they
lie in memory. Scales of other operands stay: they are computed on the way into a product anyway.
"""

from __future__ import annotations

from dataclasses import dataclass

from kernelwright.proposers.templates.graph import (
    ONE,
    Broadcast,
    Call,
    GraphBuilder,
    NodeRef,
    Permute,
    Pointwise,
    Shape,
    ViewNode,
)
from kernelwright.proposers.templates.patterns.rows import HALVES


@dataclass(frozen=True)
class TakenScale:
    """A value that results are multiplied with, or divided by: of an operand's shape, with one element along the
    depth."""

    operation: str
    value: NodeRef


@dataclass(frozen=True)
class Unscaled:
    operands: tuple[NodeRef, NodeRef]
    scales: tuple[TakenScale, ...]

    def applied(self, call: Call, made: NodeRef) -> NodeRef:
        for scale in self.scales:
            made = call.pointwise(scale.operation, made, scale.value)
        return made


def is_widened(builder: GraphBuilder, place: NodeRef) -> bool:
    """A narrow matrix as float32, perhaps moved: a contraction reads it as it lies."""
    node = builder.nodes[place.node]
    if isinstance(node, Permute | ViewNode):
        return is_widened(builder, NodeRef(node.inputs[0]))
    return isinstance(node, Pointwise) and node.operation == "convert" and builder.nodes[node.inputs[0]].dtype in HALVES


def without_scales(builder: GraphBuilder, first: NodeRef, second: NodeRef) -> Unscaled | None:
    """None where no scale can be taken out of a narrow operand."""
    depths = (len(builder.shape(first)) - 1, len(builder.shape(second)) - 2)
    found = [_taken(builder, one, depth) for one, depth in zip((first, second), depths, strict=True)]
    scales = tuple(scale for one in found if one is not None for scale in one[1])
    if not scales:
        return None
    left, right = (one[0] if one else given for one, given in zip(found, (first, second), strict=True))
    return Unscaled((left, right), scales)


def _taken(builder: GraphBuilder, place: NodeRef, depth: int) -> tuple[NodeRef, list[TakenScale]] | None:
    """The operand without scales, and those; None where it is not a narrow one with scales."""
    node = builder.nodes[place.node]
    if is_widened(builder, place):
        return place, []
    match node:
        case Pointwise(operation="mul" | "div" as operation, inputs=(one, other)):
            orders = ((one, other), (other, one)) if operation == "mul" else ((one, other),)
            for value, factor in orders:
                scale = _single_along(builder, NodeRef(factor), node.shape, depth)
                rest = _taken(builder, NodeRef(value), depth) if scale is not None else None
                if scale is not None and rest is not None and builder.shape(NodeRef(value)) == node.shape:
                    return rest[0], [*rest[1], TakenScale(operation, scale)]
        case Permute(dims=dims):
            inner = _taken(builder, NodeRef(node.inputs[0]), dims[depth])
            if inner is not None:
                return _turned(builder, inner[0], dims), [
                    TakenScale(scale.operation, _turned(builder, _lifted(builder, scale.value, len(dims)), dims))
                    for scale in inner[1]
                ]
        case ViewNode():
            return _viewed(builder, node, depth)
    return None


def _viewed(builder: GraphBuilder, node: ViewNode, depth: int) -> tuple[NodeRef, list[TakenScale]] | None:
    """Rows put together, as a linear layer does with its batch; the depth stays the last dimension."""
    source = NodeRef(node.inputs[0])
    shape = builder.shape(source)
    if depth != len(node.shape) - 1 or not shape or shape[-1] != node.shape[-1]:
        return None
    inner = _taken(builder, source, len(shape) - 1)
    if inner is None:
        return None
    value = builder.add(ViewNode(node.shape, node.dtype, (inner[0].node,)))
    scales = []
    for scale in inner[1]:
        whole = _expanded(builder, scale.value, (*shape[:-1], ONE))
        rows = builder.add(ViewNode((*node.shape[:-1], ONE), builder.dtype(whole), (whole.node,)))
        scales.append(TakenScale(scale.operation, rows))
    return value, scales


def _single_along(builder: GraphBuilder, factor: NodeRef, shape: Shape, depth: int) -> NodeRef | None:
    """The factor with one element along the depth, if it does not vary there."""
    node = builder.nodes[factor.node]
    if isinstance(node, Broadcast):
        return _single_along(builder, NodeRef(node.inputs[0]), shape, depth)
    own = builder.shape(factor)
    at = depth - (len(shape) - len(own))
    return factor if at < 0 or own[at].single else None


def _lifted(builder: GraphBuilder, value: NodeRef, rank: int) -> NodeRef:
    shape = builder.shape(value)
    if len(shape) == rank:
        return value
    return builder.add(ViewNode((ONE,) * (rank - len(shape)) + shape, builder.dtype(value), (value.node,)))


def _turned(builder: GraphBuilder, value: NodeRef, dims: tuple[int, ...]) -> NodeRef:
    shape = builder.shape(value)
    turned = tuple(shape[dim] for dim in dims)
    if sum(not extent.single for extent in shape) <= 1:  # no element changes its place
        return builder.add(ViewNode(turned, builder.dtype(value), (value.node,)))
    return builder.add(Permute(turned, builder.dtype(value), (value.node,), dims))


def _expanded(builder: GraphBuilder, value: NodeRef, shape: Shape) -> NodeRef:
    if builder.shape(value) == shape:
        return value
    return builder.add(Broadcast(shape, builder.dtype(value), (value.node,)))
