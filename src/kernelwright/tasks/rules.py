"""Kinds of sizes for hidden workloads: awkward ones that no tile divides, and aligned ones that nobody published.

A kernel often has a path for whole vectors or tiles and another one for the rest. Awkward sizes alone never enter the
first, and the published sizes are all that it would have to be right for.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

TILES = (64, 32, 16, 8)
CHOICES = 3


@dataclass(frozen=True)
class Span:
    """Where a size may lie, both ends included, and the values of it that are public."""

    low: int
    high: int
    known: frozenset[int] = frozenset()


Rule = Callable[[int, Span], int]  # a drawn value becomes the nearest one of its kind, or stays if there is none


@dataclass(frozen=True)
class Pattern:
    """Which rule a size gets, by the turn and its place among the sizes."""

    rule: Callable[[int, int], Rule]
    turns: int  # after as many it begins again


def _awkward(turn: int, place: int) -> Rule:
    """No size is aligned. The rules rotate over turns and sizes."""
    return RULES[(turn + place) % len(RULES)]


def _mixed(turn: int, place: int) -> Rule:
    """All sizes awkward, all of them aligned, and two kinds of mixtures take turns: tails, whole tiles, and both."""
    lap, step = divmod(turn, MIXED_TURNS)
    if step == 0 or (step > 1 and (step + place) % 2 == 0):
        return _awkward(lap, place)
    only_tiles = step > 1 or lap % 2 == 0
    return _whole_tiles if only_tiles or (lap // 2 + place) % 2 == 0 else _whole_vectors


def _nearest(value: int, span: Span, wanted: Callable[[int], bool], reach: int) -> int:
    near = (v for step in range(reach) for v in (value - step, value + step))
    return next((v for v in near if span.low <= v <= span.high and v not in span.known and wanted(v)), value)


def _prime(value: int, span: Span) -> int:
    return _nearest(value, span, is_prime, reach=200)


def _beside_power_of_two(value: int, span: Span) -> int:
    powers = [1 << k for k in range(2, value.bit_length() + 2)]
    beside = [p + off for p in powers for off in (-1, 1) if span.low <= p + off <= span.high]
    return min(beside, key=lambda v: abs(math.log(v / value)), default=value)


def _no_multiple_of_eight(value: int, span: Span) -> int:
    return _nearest(value, span, lambda v: v % 8 != 0, reach=4)


def _whole_tiles(value: int, span: Span) -> int:
    """A multiple of 64; in a narrow range, which would leave hardly a choice, of a smaller tile."""
    tile = next((tile for tile in TILES if span.high - span.low >= CHOICES * tile), TILES[-1])
    return _nearest(value, span, lambda v: v % tile == 0, reach=CHOICES * tile)


def _whole_vectors(value: int, span: Span) -> int:
    """Vectors of eight come out even, and nothing larger does."""
    return _nearest(value, span, lambda v: v % 16 == 8, reach=48)


RULES: tuple[Rule, ...] = (_prime, _beside_power_of_two, _no_multiple_of_eight)
MIXED_TURNS = 4
AWKWARD = Pattern(_awkward, len(RULES))
MIXED = Pattern(_mixed, MIXED_TURNS)


def is_prime(value: int) -> bool:
    return value > 1 and all(value % d for d in range(2, math.isqrt(value) + 1))
