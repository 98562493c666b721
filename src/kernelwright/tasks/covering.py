"""What there is to cover in a task's declared domain: classes and pairs of classes as bits, and what points cost.

It follows from the task and the limits, so that it is made once and kept.
"""

from __future__ import annotations

import itertools
import math
import random
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from statistics import median
from typing import NamedTuple

from kernelwright.tasks.declarations import IntegerDraw, TensorInput
from kernelwright.tasks.dims import Dim, TaskError, evaluate
from kernelwright.tasks.hidden import work
from kernelwright.tasks.model import Task, Workload
from kernelwright.tasks.size_classes import LEAST, MOST, between, group_key, size_groups

Point = tuple[int, ...]
"""A value for every size, in the order of the ranges."""

Choice = tuple[int, ...]
"""The index of a group for every factor: the sizes in the order of the ranges, then the dtype if there are several."""

Group = tuple[int, int]
"""A factor, and the index of one of its groups."""

HEIGHTS = (0.25, 0.5, 0.75, 1.0)  # where a possible point is looked for, if the lightest is not possible
IMPOSSIBLE, TOO_LARGE = math.inf, sys.float_info.max  # in place of the work of a point


@dataclass(frozen=True)
class PointLimits:
    """What the check points of one judging may cost. Work is counted in median public workloads.

    `single` bounds one point and `total` all of them; a point whose classes allow less has at most `ordinary`. `bytes`
    bounds the tensors of one point. A public workload of less than `smallest` units of work (elements read, or what
    the task says) counts as that many: below, starting a call costs more than the call.
    """

    points: int = 40
    single: float = 12.0
    total: float = 40.0
    ordinary: float = 0.25
    bytes: int = 1 << 30
    smallest: int = 1 << 18


@dataclass(frozen=True)
class Weight:
    work: float
    bytes: int


@dataclass(frozen=True)
class DeclaredDomain:
    """The part of a task that decides which workloads it has, as a value that can be a key."""

    ranges: tuple[tuple[str, int, int], ...]
    dtypes: tuple[str, ...]
    tensors: tuple[tuple[tuple[Dim, ...], int], ...]  # declared dimensions, and bytes of an element
    draws: tuple[tuple[Dim, Dim], ...]  # bounds of whole numbers, which must not be empty
    work: Dim | None
    public: tuple[Point, ...]
    usual: float  # the work of the median public workload

    @staticmethod
    def of(task: Task, limits: PointLimits) -> DeclaredDomain:
        declared = [one for one in task.inputs.values() if isinstance(one, TensorInput)]
        widest = max(map(_item_bytes, task.dtypes))
        draws = (one.draw for one in declared if isinstance(one.draw, IntegerDraw))
        return DeclaredDomain(
            ranges=tuple((name, low, high) for name, (low, high) in task.hidden.items()),
            dtypes=task.dtypes,
            tensors=tuple((one.dims, _item_bytes(one.dtype) if one.dtype else widest) for one in declared),
            draws=tuple((draw.low, draw.high) for draw in draws),
            work=task.work,
            public=tuple(tuple(sizes[name] for name in task.hidden) for sizes in task.public),
            usual=max(median(work(task, sizes) for sizes in task.public), limits.smallest),
        )

    def weigh(self, point: Point) -> Weight:
        """What a point costs; TaskError where its sizes make no tensor. The tensors are those that are declared."""
        sizes = {name: value for (name, _, _), value in zip(self.ranges, point, strict=True)}
        elements = weighed = 0
        for dims, item in self.tensors:
            count = 1
            for dim in dims:
                value = evaluate(dim, sizes)
                if value < 1:
                    raise TaskError(f"dimension {dim!r} is {value}")
                count *= value
            elements += count
            weighed += count * item
        for low, high in self.draws:
            if evaluate(low, sizes) >= evaluate(high, sizes):
                raise TaskError(f"there is no whole number from {low} to {high}")
        units = elements if self.work is None else evaluate(self.work, sizes)
        if units < 1:
            raise TaskError(f"work is {units}")
        return Weight(units / self.usual, weighed)

    def at(self, heights: Sequence[float]) -> Point:
        """By how high each size lies in its range: 0 at its least, 1 at its most, evenly in the logarithm."""
        pairs = zip(self.ranges, heights, strict=True)
        return tuple(between(low, high, height) for (_, low, high), height in pairs)

    def some_point(self, turn: int, rng: random.Random) -> Point:
        """The public workloads in turn, then any: something to vary one size of."""
        return self.public[turn] if turn < len(self.public) else self.at([rng.random() for _ in self.ranges])

    def workload(self, point: Point, dtype: str) -> Workload:
        sizes = tuple((name, value) for (name, _, _), value in zip(self.ranges, point, strict=True))
        return Workload(sizes, dtype, hidden=True)


def _item_bytes(dtype: str) -> int:
    return int("".join(filter(str.isdigit, dtype)) or 8) // 8


class Masks(NamedTuple):
    """Which bits are what. Groups are not reported, but an odd size beside a multiple of 128, or at the end of its
    range, must not stand for all odd sizes."""

    classes: int
    groups: int
    coarse_pairs: int
    fine_pairs: int


def _standing(groups: Sequence[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """The classes for which each group stands in pairs: an end of a range only for itself where other values are in
    its other classes, or half of all points would be at ends."""
    inner = {name for names in groups for name in names if not {LEAST, MOST} & set(names)}
    return [tuple(name for name in names if not ({LEAST, MOST} & set(names) and name in inner)) for names in groups]


class CoverageLayout:
    """The factors of a domain (its sizes, and the dtype if there are several), and a bit for everything to cover.

    Whether a class or a pair has a workload within the limits is found by trying the lightest first: work is taken to
    grow with every size.
    """

    def __init__(self, domain: DeclaredDomain, limits: PointLimits) -> None:
        self.domain, self.limits = domain, limits
        self.most_bytes = max([limits.bytes, *(domain.weigh(point).bytes for point in domain.public)])
        self.groups = tuple(size_groups(low, high) for _, low, high in domain.ranges)
        dtypes = [[(dtype,) for dtype in domain.dtypes]] if len(domain.dtypes) > 1 else []
        self._classes = [[group.classes for group in groups] for groups in self.groups] + dtypes
        self._coarse = [[group.coarse for group in groups] for groups in self.groups] + dtypes
        self.lengths = [len(groups) for groups in self._classes]
        self._index = [
            {group_key(group.least, low, high): index for index, group in enumerate(groups)}
            for (_, low, high), groups in zip(domain.ranges, self.groups, strict=True)
        ]
        self._lightest: dict[Choice, tuple[float, Point | None]] = {}
        self._number()
        self._explore()
        self.reachable = self.reachable_without(frozenset())
        self.refused: frozenset[Group] = frozenset()  # groups that the reference refuses, as far as is known

    def _number(self) -> None:
        """Gives everything its bit: classes, pairs of coarse classes, pairs of classes, groups."""
        bits: dict[tuple[int | str, ...], int] = {}

        def union(whats: Iterator[tuple[int | str, ...]]) -> int:
            return sum({1 << bits.setdefault(what, len(bits)) for what in whats})

        factors = range(len(self.lengths))
        self.class_bits = [[union((s, a) for a in names) for names in self._classes[s]] for s in factors]
        self.class_names = [(int(factor), str(name)) for factor, name in bits]
        ends = [len(bits)]
        self._pair_bits: dict[tuple[int, int], list[list[int]]] = {}
        for kinds in (self._coarse, [_standing(groups) for groups in self._classes]):
            for s, t in itertools.combinations(factors, 2):
                table = self._pair_bits.setdefault((s, t), [[0] * self.lengths[t] for _ in range(self.lengths[s])])
                for g, h in itertools.product(range(self.lengths[s]), range(self.lengths[t])):
                    pairs = itertools.product(kinds[s][g], kinds[t][h])
                    table[g][h] |= union((len(ends), s, a, t, b) for a, b in pairs)
            ends.append(len(bits))
        for (s, t), table in list(self._pair_bits.items()):
            self._pair_bits[t, s] = [list(column) for column in zip(*table, strict=True)]
        for s in factors:
            self.class_bits[s] = [names | union(iter([(s, g)])) for g, names in enumerate(self.class_bits[s])]
        first, second, third, fourth = ((1 << end) - 1 for end in (*ends, len(bits)))
        self.masks = Masks(first, fourth & ~third, second & ~first, third & ~second)

    def _explore(self) -> None:
        """Which groups there are, and which of them and which pairs of them a point within the limits is in."""
        least = {(s, g): self.lightest({s: g})[0] for s, groups in enumerate(self.groups) for g in range(len(groups))}
        others = {(s, g): 0.0 for s in range(len(self.groups), len(self.lengths)) for g in range(self.lengths[s])}
        known = least | others
        self._existing = [group for group, cost in known.items() if cost < IMPOSSIBLE]
        self._within = [group for group, cost in known.items() if cost <= self.limits.single]
        self.pairs = [
            ((s, g), (t, h))
            for (s, g), (t, h) in itertools.combinations(self._within, 2)
            if s < t and (t >= len(self.groups) or self.lightest({s: g, t: h})[0] <= self.limits.single)
        ]

    def existing_without(self, excluded: Set[Group]) -> int:
        """Classes that a possible workload is in, if these groups are not possible."""
        return self._union(group for group in self._existing if group not in excluded)

    def reachable_without(self, excluded: Set[Group]) -> int:
        """Classes and pairs that a workload within the limits is in, if these groups are not possible."""
        found = self._union(group for group in self._within if group not in excluded)
        for first, second in self.pairs:
            if first not in excluded and second not in excluded:
                found |= self.pair_bits(first, second)
        return found

    def pair_bits(self, first: Group, second: Group) -> int:
        return self._pair_bits[first[0], second[0]][first[1]][second[1]]

    def _union(self, groups: Iterable[Group]) -> int:
        found = 0
        for factor, group in groups:
            found |= self.class_bits[factor][group]
        return found

    def cost(self, point: Point) -> float:
        """The work of a point, `IMPOSSIBLE` or `TOO_LARGE`."""
        try:
            weight = self.domain.weigh(point)
        except TaskError:
            return IMPOSSIBLE
        return weight.work if weight.bytes <= self.most_bytes else TOO_LARGE

    def lightest(self, fixed: Mapping[int, int]) -> tuple[float, Point | None]:
        """The least cost where these sizes are in these groups, as far as a few tries tell, and the point."""
        best: tuple[float, Point | None] = IMPOSSIBLE, None
        for heights in self._heights():
            point = tuple(
                self.groups[place][fixed[place]].at(height) if place in fixed else between(low, high, height)
                for place, ((_, low, high), height) in enumerate(zip(self.domain.ranges, heights, strict=True))
            )
            cost = self.cost(point)
            if cost < best[0]:
                best = cost, point
            if not any(heights) and cost < IMPOSSIBLE:
                break
        return best

    def _heights(self) -> Iterator[tuple[float, ...]]:
        """All sizes at their least; if that is impossible, one of them higher, and then all of them."""
        count = len(self.groups)
        yield (0.0,) * count
        for place, height in itertools.product(range(count), HEIGHTS):
            yield tuple(height if other == place else 0.0 for other in range(count))
        for height in HEIGHTS:
            yield (height,) * count

    def lightest_of(self, choice: Choice) -> tuple[float, Point | None]:
        """The same for a whole choice, remembered."""
        sizes = choice[: len(self.groups)]
        if sizes not in self._lightest:
            self._lightest[sizes] = self.lightest(dict(enumerate(sizes)))
        return self._lightest[sizes]

    def choice_of(self, point: Point, dtype: str) -> Choice:
        """The groups that a point is in."""
        sizes = tuple(self.group_of(place, value) for place, value in enumerate(point))
        return sizes if len(self.lengths) == len(self.groups) else (*sizes, self.domain.dtypes.index(dtype))

    def group_of(self, place: int, value: int) -> int:
        _, low, high = self.domain.ranges[place]
        return self._index[place][group_key(value, low, high)]

    def dtype_of(self, choice: Choice) -> str:
        return self.domain.dtypes[choice[-1] if len(choice) > len(self.groups) else 0]

    def cover(self, choice: Choice) -> int:
        """Everything that a choice covers."""
        found = 0
        for factor, group in enumerate(choice):
            found |= self.cover_of(choice, factor, group)
        return found

    def cover_of(self, choice: Choice, factor: int, group: int) -> int:
        """What it covers by one factor, if that were in `group`."""
        found = self.class_bits[factor][group]
        for other, index in enumerate(choice):
            if other != factor:
                found |= self._pair_bits[factor, other][group][index]
        return found

    def cover_without(self, choice: Choice, factor: int) -> int:
        """What it covers whichever group that factor is in."""
        found = 0
        for s, group in enumerate(choice):
            if s != factor:
                found |= self.class_bits[s][group]
                for t in range(s + 1, len(choice)):
                    if t != factor:
                        found |= self._pair_bits[s, t][group][choice[t]]
        return found

    def class_words(self, bits: int) -> tuple[str, ...]:
        """The classes among these bits in words: "cols at its most (32768)"."""
        return tuple(self._words(*what) for number, what in enumerate(self.class_names) if bits >> number & 1)

    def _words(self, factor: int, name: str) -> str:
        if factor == len(self.groups):
            return f"dtype {name}"
        size, low, high = self.domain.ranges[factor]
        return f"{size} {name}" + {LEAST: f" ({low})", MOST: f" ({high})"}.get(name, "")
