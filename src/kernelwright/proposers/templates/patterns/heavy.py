"""Steps other than row programs: products, pooling and convolutions, each from one node of the graph."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from kernelwright.proposers.templates.graph import (
    CannotExpressError,
    Convolution,
    ConvolutionInput,
    ConvolutionWeight,
    Extent,
    Graph,
    Matmul,
    Permute,
    PoolBackward,
    PoolNode,
    Scatter,
    Window,
    total,
)
from kernelwright.proposers.templates.patterns.rows import RowProgram

HEAVY = (Matmul, Scatter, PoolNode, PoolBackward, Convolution, ConvolutionInput, ConvolutionWeight)


@dataclass(frozen=True)
class MatmulStep:
    """output[m, n] = sum over k of left[m, k] right[k, n]; a transposed operand is stored transposed."""

    left: str
    right: str
    output: str
    m: Extent
    n: Extent
    k: Extent
    left_transposed: bool
    right_transposed: bool
    epilogue: RowProgram | None = None  # steps over elements that follow on the product
    pattern: ClassVar[str] = "product"


@dataclass(frozen=True)
class PoolStep:
    """Over `planes` images of height × width."""

    input: str
    output: str
    planes: Extent
    height: Extent
    width: Extent
    window: Window
    pattern: ClassVar[str] = "pooling"


@dataclass(frozen=True)
class PoolBackwardStep:
    gradient: str
    input: str
    output: str
    planes: Extent
    height: Extent
    width: Extent
    window: Window
    pattern: ClassVar[str] = "pooling_backward"


@dataclass(frozen=True)
class ConvolutionStep:
    """One of the three products of a convolution: `kind` is "forward", "input" or "weight".

    Operands in the order of the graph's nodes; batch, channels and sizes are those of the convolution itself.
    """

    kind: str
    first: str
    second: str
    output: str
    batch: Extent
    channels: Extent
    height: Extent
    width: Extent
    filters: Extent
    tall: Extent
    broad: Extent
    window: Window
    epilogue: RowProgram | None = None
    pattern: ClassVar[str] = "convolution"


@dataclass(frozen=True)
class ScatterStep:
    """Row by row: `many` elements of the source go to their places among `wide`, the others are zero."""

    index: str
    source: str
    output: str
    rows: Extent
    many: Extent
    wide: Extent
    pattern: ClassVar[str] = "scatter"


HeavyStep = MatmulStep | PoolStep | PoolBackwardStep | ConvolutionStep | ScatterStep


@dataclass(frozen=True)
class Recognised:
    operands: tuple[int, ...]
    step: Callable[[tuple[str, ...], str], HeavyStep]


def recognise_heavy(graph: Graph, place: int) -> Recognised:
    node = graph.nodes[place]
    match node:
        case Matmul():
            return _product(graph, node)
        case Convolution() | ConvolutionInput() | ConvolutionWeight():
            return _convolution(graph, node)
        case Scatter():
            rows, many = total(node.shape[:-1]), graph.nodes[node.inputs[0]].shape[-1]
            wide = node.shape[-1]
            return Recognised(node.inputs, lambda names, home: ScatterStep(names[0], names[1], home, rows, many, wide))
        case PoolNode():
            shape = graph.nodes[node.inputs[0]].shape
            form = (total(shape[:-2]), shape[-2], shape[-1], node.window)
            return Recognised(node.inputs, lambda names, home: PoolStep(names[0], home, *form))
        case PoolBackward():
            shape = node.shape
            form = (total(shape[:-2]), shape[-2], shape[-1], node.window)
            return Recognised(node.inputs, lambda names, home: PoolBackwardStep(names[0], names[1], home, *form))
    raise CannotExpressError(f"{graph.task}: no template covers {type(node).__name__.lower()} here")


def _product(graph: Graph, node: Matmul) -> Recognised:
    if len(node.shape) != 2:
        raise CannotExpressError(f"{graph.task}: no template covers a stack of products (bmm)")
    (left, left_transposed), (right, right_transposed) = (_untransposed(graph, place) for place in node.inputs)
    depth = graph.nodes[node.inputs[0]].shape[1]
    form = (node.shape[0], node.shape[1], depth, left_transposed, right_transposed)
    return Recognised((left, right), lambda names, home: MatmulStep(names[0], names[1], home, *form))


def _untransposed(graph: Graph, place: int) -> tuple[int, bool]:
    """The matrix that lies in memory, and whether the operand is its transpose."""
    node = graph.nodes[place]
    if not isinstance(node, Permute):
        return place, False
    if node.dims != (1, 0):
        raise CannotExpressError(f"{graph.task}: no template covers permute{list(node.dims)} before a product")
    inner, transposed = _untransposed(graph, node.inputs[0])
    return inner, not transposed


def _convolution(graph: Graph, node: Convolution | ConvolutionInput | ConvolutionWeight) -> Recognised:
    if node.groups != 1:
        raise CannotExpressError(f"{graph.task}: no template covers a convolution in {node.groups} groups")
    first, second = (graph.nodes[place].shape for place in node.inputs)
    match node:
        case Convolution():
            kind, image, made = "forward", first, node.shape
        case ConvolutionInput():
            kind, image, made = "input", node.shape, first
        case _:
            kind, image, made = "weight", second, first
    batch, channels, height, width = image
    _, filters, tall, broad = made
    form = (batch, channels, height, width, filters, tall, broad, node.window)
    return Recognised(node.inputs, lambda names, home: ConvolutionStep(kind, names[0], names[1], home, *form))
