"""Check points: at most forty workloads over everything that a task declares, for checks without a clock.

Timed hidden workloads resemble the public ones. Check points go where those never do: every class of every size, the
ends of the ranges, the least and the most work. They are a covering array, chosen greedily: first every size class,
then every pair of coarse classes, then pairs of classes; by gain over the root of the work. They follow from a key
that is made for one judging, so that they are not known before, and no torch is needed to find them.
"""

from __future__ import annotations

import hashlib
import hmac
import math
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from kernelwright.tasks.covering import IMPOSSIBLE, Choice, CoverageLayout, DeclaredDomain, Group, Point, PointLimits
from kernelwright.tasks.equal_sizes import equal_points
from kernelwright.tasks.model import Task, Workload

__all__ = ["CheckPoints", "Coverage", "Footprint", "PointLimits", "check_points", "coverage"]

WORTH = (100, 15, 10, 1)  # of covering a class, a group, a pair of coarse classes, a pair of classes
STARTS, PASSES = 3, 2  # of the search for the next choice
DRAWS, TRIED = 24, 8  # of a choice: values that are drawn, and those that are tried, most news first
BANDS = 6  # parts of the range of a size, evenly in the logarithm
BETWEEN = 2  # points of more than ordinary work, besides those whose classes ask for it
BISECTIONS, LEAST_PACE = 12, 0.2
ALONE = 4  # values of a group that are refused with any other sizes, before the group counts as impossible
MOST_REFUSED = 60  # points, in all: each costs a run of the reference without data

Footprint = Callable[[Workload], int | None]
"""The bytes of every tensor of a workload, results too; None where the reference refuses the sizes."""


@dataclass(frozen=True)
class Coverage:
    """What the points cover, and what there is to cover.

    `classes` counts the size classes (and dtypes) of the declared ranges that a possible workload is in, whatever it
    costs, and `missing` names those of them that no point is in: as many as the two counts differ by. A class is
    missing because even its lightest workload is beyond the limits of work or bytes, or because the points or their
    work were used up. A class that a range does not have, or whose sizes no tensor or no reference takes, is not
    counted. `coarse_pairs` and `fine_pairs` count the pairs that a point within the limits can be in.
    """

    classes: tuple[int, int]
    coarse_pairs: tuple[int, int]
    fine_pairs: tuple[int, int]
    missing: tuple[str, ...]


@dataclass(frozen=True)
class CheckPoints:
    """The points in the order of what they add: those that cover classes first, those of fine pairs last.

    `work` is that of all points together, in median public workloads.
    """

    points: tuple[Workload, ...]
    coverage: Coverage
    work: float = 0.0


LIMITS = PointLimits()

Trait = tuple[str, int]


def traits_of(value: int, low: int, high: int) -> set[Trait]:
    """Where a size lies in its range, and what it leaves modulo powers of two: kernels have tails and thresholds that
    are not classes of their own, so that points of the same classes should differ in these."""
    band = int(BANDS * math.log(value / low) / math.log((high + 1) / low))
    return {("band", band), ("modulo 16", value % 16), ("modulo 32", value % 32)}


def check_points(
    task: Task, key: bytes, limits: PointLimits = LIMITS, footprint: Footprint | None = None
) -> CheckPoints:
    """The check points of one judging. `footprint` is asked only about points that are about to be taken; without it
    the tensors that the task declares are counted, and every shape that they can have is taken to be possible."""
    seed = hmac.new(key, f"kernelwright check points {task.name}".encode(), hashlib.sha256).digest()
    selection = _Selection(_layout(DeclaredDomain.of(task, limits), limits), random.Random(seed), footprint)
    selection.take_ends()
    selection.take_between()
    selection.take_equal()
    while len(selection.taken) < limits.points and selection.take_next():
        pass
    return selection.result()


def coverage(task: Task, points: Sequence[Workload], limits: PointLimits = LIMITS) -> Coverage:
    """What some of the points cover, where not all of them were checked: of what `check_points` found last."""
    layout, covered = _layout(DeclaredDomain.of(task, limits), limits), 0
    for point in points:
        sizes = point.size_map
        covered |= layout.cover(layout.choice_of(tuple(sizes[name] for name in task.hidden), point.dtype))
    return _coverage(layout, covered)


@lru_cache(maxsize=16)
def _layout(domain: DeclaredDomain, limits: PointLimits) -> CoverageLayout:
    return CoverageLayout(domain, limits)


@dataclass
class _Selection:
    """The points so far, and what they cover, as bits of the layout."""

    layout: CoverageLayout
    rng: random.Random
    footprint: Footprint | None
    taken: list[tuple[Point, str, float]] = field(default_factory=list)
    covered: int = 0
    left: float = 0.0
    banned: set[Choice] = field(default_factory=set)
    possible: set[Group] = field(default_factory=set)
    impossible: set[Group] = field(default_factory=set)
    pairs: list[tuple[Group, Group]] = field(default_factory=list)
    refused: int = 0
    traits: list[set[Trait]] = field(default_factory=list)
    equal: set[Point] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.left = self.layout.limits.total
        self.traits = [set() for _ in self.layout.domain.ranges]
        self.pairs = self.rng.sample(self.layout.pairs, len(self.layout.pairs))

    def take_ends(self) -> None:
        """The least work there is, and about the most that the limit allows."""
        for point in (self.layout.lightest({})[1], self._heaviest_point(self.layout.limits.single)):
            self._take_if_it_fits(point)

    def take_between(self) -> None:
        """Points between ordinary work and the most: a kernel may have another path for more of it."""
        limits = self.layout.limits
        for _ in range(BETWEEN):
            most = limits.ordinary * (limits.single / limits.ordinary) ** self.rng.uniform(0.2, 0.7)
            self._take_if_it_fits(self._heaviest_point(min(most, self.left / 2)))

    def take_equal(self) -> None:
        """Points at which sizes are equal, of ordinary work where there are such."""
        for points in equal_points(self.layout.domain, self.rng):
            found = sorted({point: self.layout.cost(point) for point in points}.items(), key=lambda one: one[1])
            ordinary = [point for point, cost in found if cost <= self.layout.limits.ordinary]
            if found and len(self.taken) < self.layout.limits.points // 2:
                point = self.rng.choice(ordinary) if ordinary else found[0][0]
                self._take_if_it_fits(point)
                self.equal.add(point)

    def _take_if_it_fits(self, point: Point | None) -> None:
        dtype = self.rng.choice(self.layout.domain.dtypes)
        if point is not None and self._within(point, self.layout.limits.single) and self._fits(point, dtype):
            self._take(point, dtype)

    def _heaviest_point(self, most: float) -> Point | None:
        """Every size at its most where that is within the limit; otherwise on a random way down from there."""
        paces = [self.rng.uniform(LEAST_PACE, 1.0) for _ in self.layout.domain.ranges]
        found, near, far = None, 0.0, 1.0 / LEAST_PACE
        for step in range(BISECTIONS):
            down = (near + far) / 2 if step else 0.0
            point = self.layout.domain.at([max(0.0, 1.0 - down * pace) for pace in paces])
            if self._within(point, most):
                found, far = point, down
            else:
                near = down
            if far == 0.0:
                break
        return found

    def _within(self, point: Point, most: float) -> bool:
        return self.layout.cost(point) <= min(most, self.left)

    def take_next(self) -> bool:
        """Takes a point of the choice of groups that adds most for its work. False if there is nothing to gain."""
        while self.refused < MOST_REFUSED:
            score, choice = max(self._climb() for _ in range(STARTS))
            if score <= 0:
                return False
            dtype = self.layout.dtype_of(choice)
            for point in self._values(choice):
                if self._fits(point, dtype):
                    self._take(point, dtype)
                    return True
                if not self.impossible.isdisjoint(enumerate(choice)):
                    break
            self.banned.add(choice)
        return False

    def _climb(self) -> tuple[float, Choice]:
        """From a random choice, one factor after another to its best group."""
        choice = self._start()
        best = self._score(choice, self.layout.cover(choice), 0.0)
        for _ in range(PASSES):
            before = best
            for factor in self.rng.sample(range(len(choice)), len(choice)):
                rest = self.layout.cover_without(choice, factor)
                found = choice
                for group in self._usable(factor):
                    cover = rest | self.layout.cover_of(choice, factor, group)
                    other = (*choice[:factor], group, *choice[factor + 1 :])
                    score = self._score(other, cover, best)
                    if score > best:
                        best, found = score, other
                choice = found
            if best == before:
                break
        return best, choice

    def _start(self) -> Choice:
        """With a class in it that is not covered, or else a pair of coarse classes, and the other factors at random;
        half of the time at their least, so that one size at its most is not beyond the limit."""
        wanted = self._wanted()
        light = bool(wanted) and self.rng.random() < 0.5
        usable = [self._usable(factor) for factor in range(len(self.layout.lengths))]
        start = [groups[0] if light else self.rng.choice(groups) for groups in usable]
        for factor, group in wanted:
            start[factor] = group
        return tuple(start)

    def _wanted(self) -> tuple[Group, ...]:
        layout, missing = self.layout, self.layout.reachable & ~self.covered
        if missing & (layout.masks.classes | layout.masks.groups):
            groups = [
                (factor, group)
                for factor, row in enumerate(layout.class_bits)
                for group, bits in enumerate(row)
                if bits & missing and (factor, group) not in self.impossible
            ]
            if groups:
                return (self.rng.choice(groups),)
        while self.pairs:  # what is covered once stays covered
            pair = self.pairs[-1]
            if layout.pair_bits(*pair) & missing & layout.masks.coarse_pairs and not self.impossible & set(pair):
                return pair
            self.pairs.pop()
        return ()

    def _usable(self, factor: int) -> list[int]:
        every = range(self.layout.lengths[factor])
        return [group for group in every if (factor, group) not in self.impossible] or list(every)

    def _score(self, choice: Choice, cover: int, beaten: float) -> float:
        new = cover & self.layout.reachable & ~self.covered
        if self._worth(new, 0.0) <= beaten or choice in self.banned:
            return 0.0
        work = self.layout.lightest_of(choice)[0]
        return 0.0 if work > min(self.layout.limits.single, self.left) else self._worth(new, work)

    def _worth(self, new: int, work: float) -> float:
        """What covering these bits is worth, for the work."""
        gain = sum(worth * (new & mask).bit_count() for worth, mask in zip(WORTH, self.layout.masks, strict=True))
        return gain / math.sqrt(1 + work * self.layout.limits.points / self.layout.limits.total)

    def _values(self, choice: Choice) -> Iterator[Point]:
        """Points of the choice: at random within the ordinary work, failing that ever closer to the lightest."""
        least, lightest = self.layout.lightest_of(choice)
        if lightest is None:
            return
        most = max(self.layout.limits.ordinary, least)
        groups = [groups[index] for groups, index in zip(self.layout.groups, choice, strict=False)]
        drawn = [tuple(group.draw(self.rng) for group in groups) for _ in range(DRAWS)]
        drawn = sorted(drawn, key=self._news, reverse=True)[:TRIED]
        lowered = [
            tuple(group.lowered(value, height) for group, value in zip(groups, drawn[0], strict=True))
            for height in (0.5, 0.25, 0.1)
        ]
        yield from (point for point in (*drawn, *lowered) if self._within(point, most))
        yield lightest

    def _news(self, point: Point) -> int:
        """How many remainders and parts of ranges this point would be the first to have."""
        return sum(len(traits - seen) for traits, seen in zip(self._traits(point), self.traits, strict=True))

    def _traits(self, point: Point) -> list[set[Trait]]:
        ranges = zip(self.layout.domain.ranges, point, strict=True)
        return [traits_of(value, low, high) for (_, low, high), value in ranges]

    def _fits(self, point: Point, dtype: str) -> bool:
        """Whether it is new, the reference takes it, and all its tensors fit."""
        if any((point, dtype) == (other, with_dtype) for other, with_dtype, _ in self.taken):
            return False
        if self.footprint is None or self.refused >= MOST_REFUSED:
            return self.footprint is None
        size = self.footprint(self.layout.domain.workload(point, dtype))
        if size is None:
            self.refused += 1
            self._blame(point, dtype)
        return size is not None and (size <= self.layout.most_bytes or size <= self._public_bytes())

    def _public_bytes(self) -> int:
        """What a judge holds anyway: the tensors of the largest public workload."""
        assert self.footprint is not None
        domain = self.layout.domain
        return max(self.footprint(domain.workload(sizes, domain.dtypes[0])) or 0 for sizes in domain.public)

    def _blame(self, point: Point, dtype: str) -> None:
        """Finds groups that the reference refuses whatever the other sizes are, as far as a few tries tell."""
        assert self.footprint is not None
        for place, value in enumerate(point):
            group = self.layout.group_of(place, value)
            if (place, group) in self.possible | self.impossible:
                continue
            for turn in range(ALONE):
                others = self.layout.domain.some_point(turn, self.rng)
                tried = (*others[:place], self.layout.groups[place][group].draw(self.rng), *others[place + 1 :])
                cost = self.layout.cost(tried)
                if cost < IMPOSSIBLE and self.footprint(self.layout.domain.workload(tried, dtype)) is not None:
                    self.possible.add((place, group))
                    break
            else:
                self.impossible.add((place, group))

    def _take(self, point: Point, dtype: str) -> None:
        work = self.layout.cost(point)
        choice = self.layout.choice_of(point, dtype)
        self.taken.append((point, dtype, work))
        for traits, seen in zip(self._traits(point), self.traits, strict=True):
            seen |= traits
        self.covered |= self.layout.cover(choice)
        self.possible |= set(enumerate(choice))
        self.left -= work

    def result(self) -> CheckPoints:
        layout = self.layout
        layout.refused = frozenset(self.impossible - self.possible)
        points = tuple(layout.domain.workload(point, dtype) for point, dtype, _ in self._ordered())
        return CheckPoints(points, _coverage(layout, self.covered), layout.limits.total - self.left)

    def _gain(self, taken: tuple[Point, str, float], new: int) -> float:
        point, _, work = taken
        return self._worth(new, work) + (WORTH[0] if point in self.equal else 0)

    def _ordered(self) -> list[tuple[Point, str, float]]:
        """By what each adds to those before it, for its work; an equality of sizes, too, is worth a class."""
        rest = [(self.layout.cover(self.layout.choice_of(*one[:2])), one) for one in self.taken]
        ordered, covered = [], 0
        while rest:
            best = max(rest, key=lambda each: self._gain(each[1], each[0] & ~covered))
            rest.remove(best)
            ordered.append(best[1])
            covered |= best[0]
        return ordered


def _coverage(layout: CoverageLayout, covered: int) -> Coverage:
    existing = layout.existing_without(layout.refused) | covered
    possible = (layout.reachable_without(layout.refused) if layout.refused else layout.reachable) | covered
    classes, coarse, fine = (
        ((covered & mask).bit_count(), (total & mask).bit_count())
        for mask, total in (
            (layout.masks.classes, existing),
            (layout.masks.coarse_pairs, possible),
            (layout.masks.fine_pairs, possible),
        )
    )
    return Coverage(classes, coarse, fine, layout.class_words(existing & ~covered))
