"""The judge's secret workloads: sizes that follow from its key and the task's name, and from nothing else.

Deriving them by HMAC means that they cannot be foreseen without the key, and that the judge need not store
them: the same key gives the same pool on every machine.
"""

from __future__ import annotations

import hashlib
import hmac
import itertools
import json
import math
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from types import MappingProxyType
from typing import NamedTuple

from kernelwright.tasks.declarations import TensorInput
from kernelwright.tasks.dims import Sizes, TaskError, described, evaluate
from kernelwright.tasks.model import Task, Workload

Ranges = dict[str, tuple[int, int]]
Point = tuple[tuple[str, int], ...]

ATTEMPTS_PER_TURN = 32
SMALL_SPACE = 1024
LEAST_WORK, MOST_WORK = 0.5, 1.5


def hidden_workloads(
    task: Task,
    key: bytes,
    count: int = 16,
    generations: Mapping[int, int] = MappingProxyType({}),
    kept: Mapping[int, Workload] = MappingProxyType({}),
) -> tuple[Workload, ...]:
    """`count` workloads, none of them public, with about the work of the public ones, different if possible.

    The work is kept because the speed of a short workload cannot be ranked and a long one is slow to judge. A place of
    the pool whose workload was retired has the next generation: another workload of the same kind. Places that are
    `kept` are not drawn again.
    """
    public = {tuple(sorted(sizes.items())) for sizes in task.public}
    usual = median(work(task, sizes) for sizes in task.public)
    pool: list[Workload] = []
    for index in range(count):
        if index in kept:
            pool.append(kept[index])
            continue
        dtype = task.dtypes[index % len(task.dtypes)]
        taken = {w.sizes for w in (*pool, *kept.values()) if w.dtype == dtype}
        turn = index // len(task.dtypes)  # so that every dtype has every turn
        generation = generations.get(index, 0)
        drawn = _points(task, _keyed_digest(key, "generation", generation) if generation else key, index, MIXED, turn)
        points = (p for p in drawn if tuple(sorted(p)) not in public)
        pool.append(Workload(_best(task, points, taken, usual), dtype, hidden=True))
    return tuple(pool)


def require_within(task: Task, workload: Workload) -> None:
    """Refuses a workload that the task's ranges do not have, wherever it was drawn."""
    sizes = workload.size_map
    if workload.dtype not in task.dtypes or set(sizes) != set(task.hidden) or len(sizes) != len(workload.sizes):
        raise TaskError(f"{task.name}: a workload has other sizes or another dtype than the task declares")
    for name, (low, high) in task.hidden.items():
        if not low <= sizes[name] <= high:
            raise TaskError(f"{task.name}: a workload has {name} outside of {low} to {high}, which the task declares")


def sample_hidden(pool: Sequence[Workload], key: bytes, candidate_id: str, count: int = 3) -> tuple[Workload, ...]:
    """The hidden workloads of a pool for one candidate."""
    return tuple(pool[place] for place in sample_places(pool, key, candidate_id, count))


def sample_places(pool: Sequence[Workload], key: bytes, candidate_id: str, count: int = 3) -> tuple[int, ...]:
    """Their places in the pool: always the same ones for the same pool.

    Chance decides among the samples that show most: every size odd once and aligned once, wherever the pool allows.
    """
    order = sorted(range(len(pool)), key=lambda place: _keyed_digest(key, "sample", candidate_id, place))
    shown = [_Shown.by(workload) for workload in pool]
    samples = itertools.combinations(order, min(count, len(pool)))
    return max(samples, key=lambda sample: _coverage([shown[place] for place in sample]))


class _Shown(NamedTuple):
    """Which sizes of a workload are odd, aligned, or fill tiles, as bits, and how many are not aligned."""

    odd: int
    aligned: int
    tiles: int
    tails: int

    @staticmethod
    def by(workload: Workload) -> _Shown:
        values = [value for _, value in workload.sizes]
        odd, aligned, tiles = (
            sum(1 << place for place, value in enumerate(values) if value % modulus == rest)
            for modulus, rest in ((2, 1), (TILES[-1], 0), (TILES[0], 0))
        )
        return _Shown(odd, aligned, tiles, len(values) - aligned.bit_count())


def _coverage(sample: Sequence[_Shown]) -> tuple[int, int, int]:
    """How many sizes are odd and aligned somewhere, how many are not aligned at once, and how many fill tiles."""
    odd = aligned = tiles = tails = 0
    for one in sample:
        odd, aligned, tiles = odd | one.odd, aligned | one.aligned, tiles | one.tiles
        tails = max(tails, one.tails)
    return odd.bit_count() + aligned.bit_count(), tails, tiles.bit_count()


def small_workloads(task: Task, count: int) -> tuple[Workload, ...]:
    """The least work of the ranges at awkward sizes. They need not be secret: they come from no judge's key."""
    found: list[Workload] = []
    for index in range(count):
        dtype = task.dtypes[index % len(task.dtypes)]
        points = (p for p in _points(task, b"small", index, AWKWARD, index) if _misfit(task, p, 1.0) < math.inf)
        new = (p for p in points if Workload(p, dtype) not in found)
        least = min(new, key=lambda point: work(task, dict(point)), default=None)
        if least is not None:
            found.append(Workload(least, dtype))
    return tuple(found)


def lighter_workload(task: Task, key: bytes, weight: Callable[[Workload], float], most: float) -> Workload | None:
    """A hidden one for what takes too long on the others: the heaviest that weighs `most` at most, or the lightest."""
    public = {tuple(sorted(sizes.items())) for sizes in task.public}
    turns = (_ruled_points(task, key, turn, AWKWARD, turn) for turn in range(AWKWARD.turns))
    drawn = itertools.chain.from_iterable(turns)
    possible = {p for p in drawn if tuple(sorted(p)) not in public and _misfit(task, p, 1.0) < math.inf}
    ordered = sorted(possible, key=lambda point: (work(task, dict(point)), point))
    found = [Workload(point, task.dtypes[0], hidden=True) for point in ordered]
    fitting = bisect_right(found, most, key=weight)  # weighing takes longer than drawing
    return found[max(0, fitting - 1)] if found else None


def work(task: Task, sizes: Sizes) -> int:
    """What a workload costs, roughly: as the task says, or else the number of elements that it reads."""
    if task.work is not None:
        return evaluate(task.work, sizes)
    tensors = (declared for declared in task.inputs.values() if isinstance(declared, TensorInput))
    return sum(math.prod(declared.shape(sizes)) for declared in tensors)


def _best(task: Task, points: Iterable[Point], taken: set[Point], usual: float) -> Point:
    """The first new point of fitting work; failing that the new point, and then any point, that fits best."""
    best: tuple[tuple[bool, float], Point] | None = None
    for point in points:
        rank = point in taken, _misfit(task, point, usual)
        if rank[1] < math.inf and (best is None or rank < best[0]):
            best = rank, point
        if rank == (False, 0.0):
            break
    if best is None:
        name = task.name or "the task"
        raise TaskError(f"the hidden ranges of {name} leave no workload that is possible and not public: widen them")
    return best[1]


def _misfit(task: Task, point: Point, usual: float) -> float:
    """How far the work is off: 0 inside the allowed band, infinite where the sizes make no tensor."""
    try:
        ratio = work(task, dict(point)) / usual
    except TaskError:
        return math.inf
    if ratio <= 0:
        return math.inf
    return 0.0 if LEAST_WORK <= ratio <= MOST_WORK else abs(math.log(ratio))


def _points(task: Task, key: bytes, index: int, pattern: SizePattern, first: int) -> Iterator[Point]:
    """Points of the ranges in the order in which they are tried."""
    yield from _ruled_points(task, key, index, pattern, first)
    ranges = dict(task.hidden)
    if math.prod(high - low + 1 for low, high in ranges.values()) <= SMALL_SPACE:
        yield from _every_point(task.name, key, index, ranges)


def _ruled_points(task: Task, key: bytes, index: int, pattern: SizePattern, first: int) -> Iterator[Point]:
    """Those of the turn `first`, and after them those of every other turn."""
    spans = {name: _span(task, name) for name in task.hidden}
    for attempt in range(ATTEMPTS_PER_TURN * pattern.turns):
        turn = first + attempt // ATTEMPTS_PER_TURN
        yield tuple(
            (name, _draw(key, (task.name, index, attempt, name), span, pattern.rule(turn, place)))
            for place, (name, span) in enumerate(spans.items())
        )


def _span(task: Task, name: str) -> SizeRange:
    low, high = task.hidden[name]
    return SizeRange(low, high, frozenset(sizes[name] for sizes in task.public))


def _every_point(task_name: str, key: bytes, index: int, ranges: Ranges) -> Iterator[Point]:
    """A small space is searched to its end, so that workloads repeat only when there are no others."""
    values = [[(name, v) for v in range(low, high + 1)] for name, (low, high) in ranges.items()]
    points = itertools.product(*values)
    yield from sorted(points, key=lambda point: _keyed_digest(key, "every", task_name, index, described(dict(point))))


def _draw(key: bytes, place: tuple[object, ...], span: SizeRange, rule: SizeRule) -> int:
    """Log-uniform between the bounds, then moved to the nearest value of the rule's kind, if there is one."""
    fraction = int.from_bytes(_keyed_digest(key, "size", *place)[:8], "big") / 2**64
    value = min(span.high, math.floor(span.low * ((span.high + 1) / span.low) ** fraction))
    return rule(max(span.low, value), span)


def _keyed_digest(key: bytes, purpose: str, *parts: object) -> bytes:
    message = json.dumps([f"kernelwright hidden workload {purpose}", *parts])
    return hmac.new(key, message.encode(), hashlib.sha256).digest()


# Kinds of sizes: awkward ones that no tile divides, and aligned ones that are not public. A kernel often has a path for
# whole vectors or tiles and another one for the rest. Awkward sizes alone never enter the first, and the public sizes
# are all that it would have to be right for.
TILES = (64, 32, 16, 8)
CHOICES = 3


@dataclass(frozen=True)
class SizeRange:
    """Where a size may lie, both ends included, and the values of it that are public."""

    low: int
    high: int
    known: frozenset[int] = frozenset()


# A drawn value becomes the nearest one of its kind, or stays if there is none.
SizeRule = Callable[[int, SizeRange], int]


@dataclass(frozen=True)
class SizePattern:
    """Which rule a size gets, by the turn and its place among the sizes."""

    rule: Callable[[int, int], SizeRule]
    turns: int  # after as many it begins again


def _awkward(turn: int, place: int) -> SizeRule:
    """No size is aligned. The rules rotate over turns and sizes."""
    return RULES[(turn + place) % len(RULES)]


def _mixed(turn: int, place: int) -> SizeRule:
    """All sizes awkward, all of them aligned, and two kinds of mixtures take turns: tails, whole tiles, and both."""
    lap, step = divmod(turn, MIXED_TURNS)
    if step == 0 or (step > 1 and (step + place) % 2 == 0):
        return _awkward(lap, place)
    only_tiles = step > 1 or lap % 2 == 0
    return _whole_tiles if only_tiles or (lap // 2 + place) % 2 == 0 else _whole_vectors


def _nearest(value: int, span: SizeRange, wanted: Callable[[int], bool], reach: int) -> int:
    near = (v for step in range(reach) for v in (value - step, value + step))
    return next((v for v in near if span.low <= v <= span.high and v not in span.known and wanted(v)), value)


def _prime(value: int, span: SizeRange) -> int:
    return _nearest(value, span, is_prime, reach=200)


def _beside_power_of_two(value: int, span: SizeRange) -> int:
    powers = [1 << k for k in range(2, value.bit_length() + 2)]
    beside = [p + off for p in powers for off in (-1, 1) if span.low <= p + off <= span.high]
    return min(beside, key=lambda v: abs(math.log(v / value)), default=value)


def _no_multiple_of_eight(value: int, span: SizeRange) -> int:
    return _nearest(value, span, lambda v: v % 8 != 0, reach=4)


def _whole_tiles(value: int, span: SizeRange) -> int:
    """A multiple of 64; in a narrow range, which would leave hardly a choice, of a smaller tile."""
    tile = next((tile for tile in TILES if span.high - span.low >= CHOICES * tile), TILES[-1])
    return _nearest(value, span, lambda v: v % tile == 0, reach=CHOICES * tile)


def _whole_vectors(value: int, span: SizeRange) -> int:
    """Vectors of eight come out even, and nothing larger does."""
    return _nearest(value, span, lambda v: v % 16 == 8, reach=48)


RULES: tuple[SizeRule, ...] = (_prime, _beside_power_of_two, _no_multiple_of_eight)
MIXED_TURNS = 4
AWKWARD = SizePattern(_awkward, len(RULES))
MIXED = SizePattern(_mixed, MIXED_TURNS)


def is_prime(value: int) -> bool:
    return value > 1 and all(value % d for d in range(2, math.isqrt(value) + 1))
