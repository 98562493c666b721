"""STAND-IN until the real check points are merged: least, most and a few odd sizes. Replace this file whole."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kernelwright.tasks.model import Task, Workload

POINTS = 12


@dataclass(frozen=True)
class PointLimits:
    """How much work the points may be."""

    points: int = POINTS


@dataclass(frozen=True)
class Coverage:
    """What points cover, and what can be covered within the limits."""

    classes: tuple[int, int]
    coarse_pairs: tuple[int, int]
    fine_pairs: tuple[int, int]
    missing: tuple[str, ...] = ()


@dataclass(frozen=True)
class CheckPoints:
    """The points in the order of what they add: those that cover classes first, those of fine pairs last."""

    points: tuple[Workload, ...]
    coverage: Coverage


LIMITS = PointLimits()


def check_points(
    task: Task, key: bytes, limits: PointLimits = LIMITS, footprint: Callable[[Workload], int | None] | None = None
) -> CheckPoints:
    random_source = random.Random(hashlib.sha256(key).digest())
    ranges = dict(task.hidden)
    chosen = [{name: low for name, (low, _) in ranges.items()}, {name: high for name, (_, high) in ranges.items()}]
    while len(chosen) < limits.points:
        step = 1 << len(chosen) % 4
        sizes = {}
        for name, (low, high) in ranges.items():
            value = random_source.randint(low, min(high, 8 * low + 64)) // (2 * step) * 2 * step + step
            sizes[name] = min(max(value, low), high)
        chosen.append(sizes)
    dtypes = task.dtypes
    points = tuple(
        Workload(tuple(sizes.items()), dtypes[index % len(dtypes)], hidden=True) for index, sizes in enumerate(chosen)
    )
    return CheckPoints(points, coverage(task, points))


def coverage(task: Task, points: Sequence[Workload]) -> Coverage:
    """What some of the points cover: least, most, and the low bits of every size."""
    covered, missing = 0, []
    for name, (low, high) in task.hidden.items():
        found = {point.size_map[name] for point in points}
        for value, called in ((low, "least"), (high, "most")):
            covered += value in found
            if value not in found:
                missing.append(f"{name} at its {called} ({value})")
    possible = 2 * len(task.hidden)
    return Coverage((covered, possible), (0, 0), (0, 0), tuple(missing))
