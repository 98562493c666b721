"""Which form of a call belongs to which sizes: a decision tree over what divides sizes and where they change sides.

A side is known at recorded sizes only. Between the last size of one side and the first of the other nothing is
claimed, so a tree answers "not known" there; recording in between makes that gap smaller.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from kernelwright.contracts.symbolic import Expression, value_of

Sizes = Mapping[str, int]
DIVISORS = (16, 8, 4, 2, 32, 64, 128, 256)
DEEPEST = 24


@dataclass(frozen=True)
class TreeLeaf:
    """`form` numbers what holds here. `at` are the recordings that say so."""

    form: int
    at: tuple[int, ...]


@dataclass(frozen=True)
class Divided:
    """Whether a divisor divides an expression."""

    atom: Expression
    divisor: int
    yes: Tree
    no: Tree


@dataclass(frozen=True)
class Ordered:
    """`low` up to `most`, `high` from `least` on, and nothing is known between."""

    atom: Expression
    most: int
    least: int
    low: Tree
    high: Tree


Tree = TreeLeaf | Divided | Ordered


def grown(sizes: Sequence[Sizes], forms: Sequence[int], atoms: Sequence[Expression]) -> Tree | None:
    """A tree that gives every recording its form; None where no question separates two."""
    rows = {atom: [value_of(atom, at) for at in sizes] for atom in atoms}
    return _grown(tuple(range(len(sizes))), forms, rows, DEEPEST)


def leaf_at(tree: Tree, sizes: Sizes) -> TreeLeaf | None:
    while not isinstance(tree, TreeLeaf):
        value = value_of(tree.atom, sizes)
        if isinstance(tree, Divided):
            tree = tree.no if value % tree.divisor else tree.yes
        elif value <= tree.most:
            tree = tree.low
        elif value >= tree.least:
            tree = tree.high
        else:
            return None
    return tree


def nodes_of(tree: Tree) -> Iterator[Tree]:
    yield tree
    if isinstance(tree, Divided):
        yield from nodes_of(tree.yes)
        yield from nodes_of(tree.no)
    elif isinstance(tree, Ordered):
        yield from nodes_of(tree.low)
        yield from nodes_of(tree.high)


def recordings_below(tree: Tree) -> tuple[int, ...]:
    return tuple(at for node in nodes_of(tree) if isinstance(node, TreeLeaf) for at in node.at)


def _grown(
    at: tuple[int, ...], forms: Sequence[int], rows: Mapping[Expression, Sequence[int]], depth: int
) -> Tree | None:
    kinds = {forms[one] for one in at}
    if len(kinds) == 1:
        return TreeLeaf(kinds.pop(), at)
    if not depth:
        return None
    best = max(_questions(at, forms, rows), key=lambda question: question[0], default=None)
    if best is None:
        return None
    _, atom, divisor, bounds = best
    chosen = [one for one in at if (rows[atom][one] % divisor == 0 if divisor else rows[atom][one] <= bounds[0])]
    first = _grown(tuple(chosen), forms, rows, depth - 1)
    other = _grown(tuple(one for one in at if one not in set(chosen)), forms, rows, depth - 1)
    if first is None or other is None:
        return None
    return Divided(atom, divisor, first, other) if divisor else Ordered(atom, *bounds, first, other)


def _questions(
    at: tuple[int, ...], forms: Sequence[int], rows: Mapping[Expression, Sequence[int]]
) -> Iterator[tuple[tuple[float, int], Expression, int, tuple[int, int]]]:
    """Each with how much it tells, and then how plain it is: the first of equals is taken."""
    whole = _disorder([forms[one] for one in at])
    for rank, (atom, values) in enumerate(rows.items()):
        for divisor in DIVISORS:
            sides: tuple[list[int], list[int]] = [], []
            for one in at:
                sides[values[one] % divisor == 0].append(forms[one])
            if all(sides):
                yield (_gain(whole, sides), -rank), atom, divisor, (0, 0)
        ordered = sorted(at, key=lambda one: values[one])
        for place in range(1, len(ordered)):
            most, least = values[ordered[place - 1]], values[ordered[place]]
            if most < least:
                parts = [forms[one] for one in ordered[:place]], [forms[one] for one in ordered[place:]]
                yield (_gain(whole, parts), -rank), atom, 0, (most, least)


def _gain(whole: float, sides: Sequence[Sequence[int]]) -> float:
    return round(whole - sum(_disorder(side) for side in sides), 6)


def _disorder(forms: Sequence[int]) -> float:
    """In bits, of all together."""
    return sum(count * math.log2(len(forms) / count) for count in Counter(forms).values())
