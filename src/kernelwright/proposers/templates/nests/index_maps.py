"""Index maps: where in its inputs an element of a value comes from, as arithmetic over the element's own index.

With them every view, window and lookup is one kind of node, and a convolution or a stack of products is a sum over a
space that no memory holds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from kernelwright.proposers.templates.graph import Extent, Node, Number, Reduce


@dataclass(frozen=True)
class Index:
    """`operator` over operands: "i" (the place along a dimension), "value" (an input, at an index) or arithmetic."""

    operator: str
    operands: tuple[Any, ...]


IndexTerm = int | Extent | Index


@dataclass(frozen=True)
class IndexMap(Node):
    """Input 0 at the index `at`, or `fill` where `guard` does not hold. Further inputs are what "value" reads."""

    at: tuple[IndexTerm, ...] = ()
    guard: IndexTerm | None = None
    fill: Number = 0


@dataclass(frozen=True)
class IndexValue(Node):
    """A number that follows from the index of the element alone."""

    index: IndexTerm = 0


@dataclass(frozen=True)
class Join(Node):
    """Its inputs, one behind the other along `dim`."""

    dim: int = 0


@dataclass(frozen=True)
class Contraction(Reduce):
    """A reduction over a space that no memory holds: of windows, or of products of two operands."""


@dataclass(frozen=True)
class Scan(Node):
    """Along `dim`, what a reduction comes to so far: "sum", "prod", "max", "min" or "logsumexp"; "argmax" and
    "argmin" give the place of the last extreme."""

    operation: str = ""
    dim: int = 0


@dataclass(frozen=True)
class Ranked(Node):
    """The first elements of input 0 along `dim` in stable order: the values, or with `places` where they stood."""

    dim: int = 0
    descending: bool = False
    places: bool = False


@dataclass(frozen=True)
class Recurrent(Node):
    """States × times × batch × units: the states of a recurrent layer at every time.

    Inputs are what the layer's input adds to each gate (times × batch × gates · units), the states before the first
    time (batch × units each), the weight as units × gates · units and, if there is one, the bias of the gates.
    """

    cell: str = ""
    back: bool = False  # from the last time to the first


def place(dim: int) -> Index:
    return Index("i", (dim,))


def plus(one: IndexTerm, other: IndexTerm) -> IndexTerm:
    if isinstance(one, int) and isinstance(other, int):
        return one + other
    if one == 0:
        return other
    return one if other == 0 else Index("+", (one, other))


def minus(one: IndexTerm, other: IndexTerm) -> IndexTerm:
    if isinstance(one, int) and isinstance(other, int):
        return one - other
    return one if other == 0 else Index("-", (one, other))


def times(one: IndexTerm, other: IndexTerm) -> IndexTerm:
    if isinstance(one, int) and isinstance(other, int):
        return one * other
    if one == 0 or other == 0:
        return 0
    if one == 1:
        return other
    return one if other == 1 else Index("*", (one, other))


def over(one: IndexTerm, other: IndexTerm) -> IndexTerm:
    """Whole division of numbers that are not negative."""
    if one == 0:
        return 0
    return one if other == 1 else Index("/", (one, other))


def rest(one: IndexTerm, other: IndexTerm) -> IndexTerm:
    return 0 if one == 0 or other == 1 else Index("%", (one, other))


def least(one: IndexTerm, other: IndexTerm) -> IndexTerm:
    return Index("min", (one, other))


def most(one: IndexTerm, other: IndexTerm) -> IndexTerm:
    return Index("max", (one, other))


def compared(operator: str, one: IndexTerm, other: IndexTerm) -> Index:
    return Index(operator, (one, other))


def every(conditions: Sequence[IndexTerm]) -> IndexTerm | None:
    """All of them, tested in order; None where there is none."""
    found: IndexTerm | None = None
    for condition in conditions:
        found = condition if found is None else Index("&&", (found, condition))
    return found


def within(term: IndexTerm, size: IndexTerm) -> Index:
    return Index("&&", (compared(">=", term, 0), compared("<", term, size)))


def size_of(extent: Extent) -> IndexTerm:
    return extent if extent.literal is None else extent.literal


def values_in(term: Any) -> list[Index]:
    """The lookups in a term."""
    if not isinstance(term, Index):
        return []
    inner = [found for operand in term.operands for found in values_in(operand)]
    return [*inner, term] if term.operator == "value" else inner
