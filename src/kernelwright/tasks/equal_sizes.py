"""Points of a domain at which sizes are equal: there a kernel may take a square matrix for its transpose, or one axis
for another, and sizes that are drawn one by one are hardly ever equal."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterator

from kernelwright.tasks.covering import DeclaredDomain, Point
from kernelwright.tasks.dims import Dim, evaluate

EVERYWHERE, PAIRS = 1, 2  # points at which all sizes are equal, and at which two axes of a tensor are
TRIES = 24  # of finding such a point
LEAST = 2  # axes of one element are equal anyway


def equal_points(domain: DeclaredDomain, rng: random.Random) -> Iterator[Iterator[Point]]:
    """For each of a few equalities, points that have it, of less and less work."""
    for _ in range(EVERYWHERE):
        yield _all_equal(domain, rng)
    pairs = _axes(domain)
    for one, other in rng.sample(pairs, min(PAIRS, len(pairs))):
        yield _pair_equal(domain, rng, one, other)


def _axes(domain: DeclaredDomain) -> list[tuple[Dim, str]]:
    """Pairs of axes of one tensor that differ, the second of them a size by itself that the first does not have."""
    names = {name for name, low, high in domain.ranges if low < high}
    found: dict[tuple[Dim, str], None] = {}
    for dims, _ in domain.tensors:
        for one, other in itertools.permutations(dims, 2):
            if isinstance(other, str) and other in names and not _holds(one, other) and (other, one) not in found:
                found[one, other] = None
    return list(found)


def _holds(dim: Dim, name: str) -> bool:
    return isinstance(dim, str) and name in dim.replace("(", " ").replace(")", " ").split()


def _all_equal(domain: DeclaredDomain, rng: random.Random) -> Iterator[Point]:
    """As far as the ranges allow."""
    ends = [(low, high) for _, low, high in domain.ranges if low < high]
    least = max([LEAST, *(low for low, _ in ends)]) if ends else LEAST
    most = max(least, min((high for _, high in ends), default=least))
    for shrunk in range(TRIES):
        value = _drawn(rng, least, max(least, most >> shrunk))
        yield tuple(min(high, max(low, value)) for _, low, high in domain.ranges)


def _pair_equal(domain: DeclaredDomain, rng: random.Random, one: Dim, other: str) -> Iterator[Point]:
    for shrunk in range(TRIES):
        height = 1.0 / (1 + shrunk / 4)
        sizes = {name: _drawn(rng, low, max(low, int(high**height))) for name, low, high in domain.ranges}
        sizes[other] = evaluate(one, sizes)
        if all(low <= sizes[name] <= high for name, low, high in domain.ranges) and sizes[other] >= LEAST:
            yield tuple(sizes[name] for name, _, _ in domain.ranges)


def _drawn(rng: random.Random, low: int, high: int) -> int:
    """Uniform in the logarithm, as sizes are."""
    drawn: float = low * ((high + 1) / low) ** rng.random()
    return min(high, math.floor(drawn))
