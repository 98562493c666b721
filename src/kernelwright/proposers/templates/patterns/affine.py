"""Indices that are affine in the places of a space: what a view, a slice or a part of a row makes of an index.

Sizes are symbolic. What must hold for all sizes is decided by their signs, never by the sizes of one trace.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from kernelwright.proposers.templates.graph import Extent, Shape, total
from kernelwright.proposers.templates.nests.index_maps import Index, IndexTerm, minus, plus, size_of, times


class NotAffineError(Exception):
    """An index that no affine one equals."""


@dataclass(frozen=True)
class Affine:
    """`constant`, and factors of the places along dimensions of the space; dimensions without one are left out."""

    constant: IndexTerm = 0
    factors: tuple[tuple[int, IndexTerm], ...] = ()

    def __add__(self, other: Affine) -> Affine:
        found = dict(self.factors)
        for dim, factor in other.factors:
            found[dim] = plus(found[dim], factor) if dim in found else factor
        return Affine(plus(self.constant, other.constant), _sorted(found))

    def __sub__(self, other: Affine) -> Affine:
        found = dict(self.factors)
        for dim, factor in other.factors:
            found[dim] = minus(found.get(dim, 0), factor)
        return Affine(minus(self.constant, other.constant), _sorted(found))

    def scaled(self, by: IndexTerm) -> Affine:
        return Affine(times(self.constant, by), _sorted({dim: times(factor, by) for dim, factor in self.factors}))

    def factor(self, dim: int) -> IndexTerm:
        return dict(self.factors).get(dim, 0)


ZERO = Affine()


def _sorted(factors: dict[int, IndexTerm]) -> tuple[tuple[int, IndexTerm], ...]:
    return tuple(sorted((dim, factor) for dim, factor in factors.items() if value_of(factor) != (0, 0)))


def along(dim: int, extent: Extent) -> Affine:
    return ZERO if extent.single else Affine(0, ((dim, 1),))


def linear(shape: Shape, at: Sequence[Affine]) -> Affine:
    """The number of an element."""
    found = ZERO
    for extent, one in zip(shape, at, strict=True):
        found = found.scaled(size_of(extent)) + one
    return found


def affine_of(term: Any, at: Sequence[Affine]) -> Affine:
    """A term over an index whose places are themselves affine."""
    if isinstance(term, int | Extent):
        return Affine(size_of(term) if isinstance(term, Extent) else int(term))
    assert isinstance(term, Index)
    if term.operator == "i":
        place: int = term.operands[0]
        return at[place]
    if term.operator in ("+", "-", "*"):
        one, other = (affine_of(operand, at) for operand in term.operands)
        if term.operator == "+":
            return one + other
        if term.operator == "-":
            return one - other
        if not one.factors:
            return other.scaled(one.constant)
        if not other.factors:
            return one.scaled(other.constant)
    raise NotAffineError(f"an index with {term.operator}")


def value_of(term: IndexTerm) -> tuple[int, int]:
    """What a term without places is in each of the two traces."""
    match term:
        case int():
            return term, term
        case Extent():
            return term.first, term.second
    one, other = (value_of(operand) for operand in term.operands)
    match term.operator:
        case "+":
            return one[0] + other[0], one[1] + other[1]
        case "-":
            return one[0] - other[0], one[1] - other[1]
    assert term.operator == "*", term.operator
    return one[0] * other[0], one[1] * other[1]


def extent_of(term: IndexTerm) -> Extent:
    return Extent(*value_of(term))


def least_of(index: Affine, shape: Shape) -> int | None:
    """A number that the index is never below, whatever the sizes are; None where nothing is known."""
    found = index.constant
    for dim, factor in index.factors:
        first, second = value_of(factor)
        if first < 0 or second < 0:
            found = plus(found, times(factor, minus(size_of(shape[dim]), 1)))
    first, second = value_of(found)
    if first == second:
        return first
    terms = _terms(found)
    for sizes in terms:  # a multiple of a size, written in another way
        one = total(sizes)
        often = first // one.first
        if sizes and often >= 1 and (first, second) == (often * one.first, often * one.second):
            return often
    constant = terms.pop((), 0)
    return constant + sum(terms.values()) if all(count >= 0 for count in terms.values()) else None


def _terms(term: IndexTerm) -> dict[tuple[Extent, ...], int]:
    """How often each product of sizes counts, each of which is at least one."""
    match term:
        case int():
            return {(): term}
        case Extent():
            return {(term,): 1}
    one, other = (_terms(operand) for operand in term.operands)
    found: dict[tuple[Extent, ...], int] = {}
    if term.operator == "*":
        for left, count in one.items():
            for right, more in other.items():
                key = tuple(sorted((*left, *right), key=lambda e: (e.first, e.second)))
                found[key] = found.get(key, 0) + count * more
        return {key: count for key, count in found.items() if count}
    sign = -1 if term.operator == "-" else 1
    found = dict(one)
    for key, count in other.items():
        found[key] = found.get(key, 0) + sign * count
    return {key: count for key, count in found.items() if count}
