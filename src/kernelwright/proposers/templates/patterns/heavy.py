"""Steps that are no row programs: products, pooling and convolutions, each from one node of the graph."""

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
    Pool,
    PoolBackward,
    Window,
    total,
)

HEAVY = (Matmul, Pool, PoolBackward, Convolution, ConvolutionInput, ConvolutionWeight, Permute)


@dataclass(frozen=True)
class MatmulStep:
    """output[m, n] = sum over k of left[m, k] right[k, n]; a transposed operand lies in memory the other way round."""

    left: str
    right: str
    output: str
    m: Extent
    n: Extent
    k: Extent
    left_transposed: bool
    right_transposed: bool
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


HeavyStep = MatmulStep | PoolStep | PoolBackwardStep


@dataclass(frozen=True)
class Recognised:
    operands: tuple[int, ...]
    step: Callable[[tuple[str, ...], str], HeavyStep]


def recognise_heavy(graph: Graph, place: int) -> Recognised:
    node = graph.nodes[place]
    match node:
        case Pool():
            shape = graph.nodes[node.inputs[0]].shape
            form = (total(shape[:-2]), shape[-2], shape[-1], node.window)
            return Recognised(node.inputs, lambda names, home: PoolStep(names[0], home, *form))
        case PoolBackward():
            shape = node.shape
            form = (total(shape[:-2]), shape[-2], shape[-1], node.window)
            return Recognised(node.inputs, lambda names, home: PoolBackwardStep(names[0], names[1], home, *form))
    raise CannotExpressError(f"{graph.task}: no template covers {type(node).__name__.lower()} here")
