"""The recurrent step: one layer in one direction, through all times, each row of the batch for itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from kernelwright.proposers.templates.graph import CannotExpressError, Extent, Graph
from kernelwright.proposers.templates.nests.index_maps import Recurrent


@dataclass(frozen=True)
class Cell:
    """What becomes of the states of a unit.

    `code` sets `next0`, ... from the gates' shares of the input `x0`, ..., those of the state `g0`, ... (with the bias)
    and the unit's own states `s0`, ...; T is the type that is computed in.
    """

    gates: int
    states: int
    code: tuple[str, ...]


CELLS = {
    "lstm": Cell(
        4,
        2,
        (
            "const T in = T(1) / (T(1) + nest_exp(-(x0 + g0)));",
            "const T keep = T(1) / (T(1) + nest_exp(-(x1 + g1)));",
            "const T fresh = nest_tanh(x2 + g2);",
            "const T out = T(1) / (T(1) + nest_exp(-(x3 + g3)));",
            "const T next1 = keep * s1 + in * fresh;",
            "const T next0 = out * nest_tanh(next1);",
        ),
    ),
    "gru": Cell(
        3,
        1,
        (
            "const T reset = T(1) / (T(1) + nest_exp(-(x0 + g0)));",
            "const T keep = T(1) / (T(1) + nest_exp(-(x1 + g1)));",
            "const T fresh = nest_tanh(x2 + reset * g2);",
            "const T next0 = fresh + keep * (s0 - fresh);",
        ),
    ),
    "rnn_tanh": Cell(1, 1, ("const T next0 = nest_tanh(x0 + g0);",)),
    "rnn_relu": Cell(1, 1, ("const T next0 = nest_most(x0 + g0, T(0));",)),
}


@dataclass(frozen=True)
class RecurrentStep:
    """Tensors by name; sizes are those of the node."""

    gates: str
    states: tuple[str, ...]
    weight: str
    bias: str  # or nothing
    output: str
    times: Extent
    batch: Extent
    units: Extent
    dtype: str
    cell: str
    back: bool
    pattern: ClassVar[str] = "recurrent"

    @property
    def inputs(self) -> tuple[str, ...]:
        return (self.gates, *self.states, self.weight, *((self.bias,) if self.bias else ()))


def recurrent_step(graph: Graph, place: int, inputs: tuple[str, ...], output: str) -> RecurrentStep:
    node = graph.nodes[place]
    assert isinstance(node, Recurrent)
    if node.dtype not in ("float32", "float64", "float16", "bfloat16"):
        raise CannotExpressError(f"{graph.task}: no template covers a recurrent layer of {node.dtype}")
    states = CELLS[node.cell].states
    gates, first, weight, *bias = inputs[0], inputs[1 : 1 + states], *inputs[1 + states :]
    _, times, batch, units = node.shape
    name = bias[0] if bias else ""
    return RecurrentStep(gates, first, weight, name, output, times, batch, units, node.dtype, node.cell, node.back)
