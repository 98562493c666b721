"""The oracle's side of a domain check: which points there are, the memory of one of them at a time, and its values.

Nothing of a point is kept: its sizes are drawn for one judging, and no other one will see them again.
"""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median

from kernelwright.contracts.layout import extent_bytes
from kernelwright.judge.keys import derive, seed
from kernelwright.judge.oracle.device import OracleDevice
from kernelwright.judge.oracle.ledger import Ledger
from kernelwright.judge.oracle.needs import FIXED, MemoryPlan, plan_memory
from kernelwright.judge.oracle.pool import PoolEntry, SeededDraw, ValuePool
from kernelwright.judge.oracle.workload_arena import WorkloadArena
from kernelwright.tasks.domain import Coverage, check_points
from kernelwright.tasks.drawing import signature
from kernelwright.tasks.hidden import work
from kernelwright.tasks.model import Signature, Task, TaskError, Workload

LARGE = 64 << 20  # bytes of a point's tensors; what it leaves behind is given back at once
SAFELY = 64  # times the bytes of its tensors: what fits then need not be looked at
NO_ROOM = 1 << 62
AHEAD_SHARE = 0.25  # of the memory for pools, for values that are drawn ahead


@dataclass(frozen=True)
class Point:
    """`work` is relative to the median public workload."""

    workload: Workload
    signature: Signature
    work: float


@dataclass(frozen=True)
class _Known:
    task: Task
    point: Point
    number: int
    key: bytes


class PointArenas:
    """The points of the last key, the arena of one of them, and values that were drawn for others ahead of need."""

    def __init__(self, key: bytes, device: OracleDevice) -> None:
        self._key, self._device = key, device
        self._points: dict[tuple[str, Workload], _Known] = {}
        self._chosen: tuple[tuple[str, bytes], tuple[Point, ...], Coverage] | None = None
        self._arena: WorkloadArena | None = None
        self._opened: _Known | None = None
        self._other: WorkloadArena | None = None
        self._runner = ""
        self._expected: list[tuple[_Known, list[str]]] = []
        self._ahead: dict[Workload, list[PoolEntry]] = {}

    def choose(self, reference: str, task: Task, check_key: bytes) -> tuple[tuple[Point, ...], Coverage]:
        """The same points for the same key, without looking for them again."""
        if self._chosen is not None and self._chosen[0] == (reference, check_key):
            return self._chosen[1:]
        signatures: dict[Workload, Signature] = {}

        def footprint(workload: Workload) -> int | None:
            """The bytes of its tensors; None where the reference refuses the sizes."""
            try:
                signatures[workload] = signature(task, workload)
            except TaskError:
                return None
            size = sum(extent_bytes(tensor) for tensor in signatures[workload].tensors)
            return size if self._has_room(task, workload, signatures[workload], size) else NO_ROOM

        chosen = check_points(task, derive(check_key, "points"), footprint=footprint)
        usual = max(1.0, median(work(task, sizes) for sizes in task.public))
        points = tuple(
            Point(one, signatures.get(one) or signature(task, one), work(task, one.size_map) / usual)
            for one in chosen.points
        )
        self.close()
        secret = derive(self._key, "checks", reference, check_key.hex())
        self._points = {
            (reference, point.workload): _Known(task, point, number, secret) for number, point in enumerate(points)
        }
        self._chosen = (reference, check_key), points, chosen.coverage
        return points, chosen.coverage

    def expect(self, reference: str, runner: str, planned: Sequence[tuple[Workload, list[str]]]) -> None:
        """Which calls will be made, so that their values can be drawn ahead."""
        self._runner = runner
        self._expected = [(self._points[reference, workload], specials) for workload, specials in planned]

    def ahead(self, seconds: float) -> None:
        """Draws what comes next until so much time or memory is used up."""
        until, room = time.monotonic() + seconds, AHEAD_SHARE * self._device.pool_bytes
        while self._expected and time.monotonic() < until:
            if sum(entry.bytes for entries in self._ahead.values() for entry in entries) > room:
                return
            known, specials = self._expected.pop(0)
            pool = self._pool(known)
            self._ahead[known.point.workload] = list(pool.checked(self._draws(known, self._runner, specials)))

    def open(self, reference: str, workload: Workload) -> WorkloadArena:
        """Closes the arena of the point before."""
        self._shut()
        self._opened = known = self._points[reference, workload]
        self._arena = self._device.arena(known.task, workload, known.point.signature, self._pool(known))
        self._arena.blank()
        return self._arena

    def open_other(self, reference: str, workload: Workload) -> WorkloadArena:
        """Another point beside the open one; it is closed with it."""
        known = self._points[reference, workload]
        self._other = self._device.arena(known.task, workload, known.point.signature, self._pool(known))
        self._other.blank()
        return self._other

    def load_other(self, word: int) -> str:
        """Inputs that no check has, and of which nothing is expected. Says their family."""
        assert self._opened is not None and self._other is not None, "open_other comes first"
        known, label = self._opened, self._other.workload.label
        drawn = seed(known.key, "other", self._runner, known.point.workload.label, label)
        item = self._other.pool.unexpected(SeededDraw(str(known.task.families[0]), drawn))
        self._other.load(item, word)
        return item.family

    def _pool(self, known: _Known) -> ValuePool:
        slicing = self._plan(known.task, known.point.workload, known.point.signature).slicing
        return ValuePool(known.task, known.point.workload, known.key, self._device.torch_device, slicing=slicing)

    def _plan(self, task: Task, workload: Workload, made: Signature) -> MemoryPlan:
        """A point is judged without baselines."""
        return plan_memory(task, workload, made, Ledger(self._device.limit_bytes), 0)

    def _has_room(self, task: Task, workload: Workload, made: Signature, size: int) -> bool:
        """A point that this device has no room for is not covered, and the coverage says so."""
        limit = self._device.limit_bytes
        if size * SAFELY + FIXED <= limit:
            return True
        return Ledger(limit).fits(self._plan(task, workload, made).need)

    @property
    def bytes(self) -> int:
        """What is held of points."""
        ahead = sum(entry.bytes for entries in self._ahead.values() for entry in entries)
        return ahead + sum(arena.bytes for arena in (self._arena, self._other) if arena is not None)

    @property
    def current(self) -> WorkloadArena:
        assert self._arena is not None, "point comes first"
        return self._arena

    def is_current(self, arena: WorkloadArena) -> bool:
        return arena is self._arena

    def draw(
        self, runner: str, first: list[SeededDraw], specials: list[str], unchecked: int = 0
    ) -> Iterator[PoolEntry]:
        """The values of the open point: those that were drawn ahead, if they are there. Inputs of which nothing is
        expected come first, and are drawn when they are loaded."""
        assert self._opened is not None, "point comes first"
        pool, workload = self.current.pool, self._opened.point.workload
        ready = self._ahead.pop(workload, [])
        if [entry.draw.special for entry in ready] != specials:
            ready = list(pool.checked(self._draws(self._opened, runner, specials)))
        label, number = workload.label, self._opened.number
        seeds = (seed(self._opened.key, "unchecked", runner, label, number, turn) for turn in range(unchecked))
        families = itertools.cycle(self._opened.task.families)
        return itertools.chain(
            (pool.unexpected(SeededDraw(str(family), one)) for family, one in zip(families, seeds, strict=False)),
            [*pool.checked(first), *ready],
        )

    def _draws(self, known: _Known, runner: str, specials: list[str]) -> list[SeededDraw]:
        """Families take turns from point to point. Special values are planted among those of the first family, which
        is the plainest."""
        families = list(known.task.families)
        random.Random(seed(known.key, "families")).shuffle(families)
        draws = []
        for number, special in enumerate(specials):
            family = known.task.families[0] if special else families[known.number % len(families)]
            drawn = seed(known.key, "check", runner, known.point.workload.label, known.number, number)
            draws.append(SeededDraw(str(family), drawn, special))
        return draws

    def close(self) -> None:
        """Nothing of the last check stays."""
        self._shut()
        self._expected.clear()
        self._ahead.clear()

    def _shut(self) -> None:
        if self._other is not None:
            self._other.close()
            self._other = None
        if self._arena is None:
            return
        large = sum(extent_bytes(tensor) for tensor in self._arena.signature.tensors) > LARGE
        self._arena.close()
        self._arena = self._opened = None
        if large:
            self._device.tidy()
