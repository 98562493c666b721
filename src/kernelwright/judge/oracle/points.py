"""The oracle's side of a domain check: which points there are, the memory of one of them at a time, and its values.

Nothing of a point is kept: its sizes are drawn for one judging, and no other one will see them again.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from statistics import median

from kernelwright.contracts.layout import extent_bytes
from kernelwright.judge.keys import derive, seed
from kernelwright.judge.oracle.device import OracleDevice
from kernelwright.judge.oracle.pool import PoolEntry, SeededDraw, ValuePool
from kernelwright.judge.oracle.workload_arena import WorkloadArena
from kernelwright.tasks.domain import Coverage, check_points
from kernelwright.tasks.drawing import signature
from kernelwright.tasks.hidden import work
from kernelwright.tasks.model import Signature, Task, Workload

LARGE = 64 << 20  # bytes of a point's tensors; what it leaves behind is given back at once


@dataclass(frozen=True)
class Point:
    """`work` is relative to the median public workload."""

    workload: Workload
    signature: Signature
    work: float


class PointArenas:
    """The points of the last key, and the arena of one of them."""

    def __init__(self, key: bytes, device: OracleDevice) -> None:
        self._key, self._device = key, device
        self._check_key = b""
        self._points: dict[tuple[str, Workload], tuple[Task, Point]] = {}
        self._arena: WorkloadArena | None = None
        self._ordinary = 0  # draws of families so far

    def choose(self, reference: str, task: Task, check_key: bytes) -> tuple[tuple[Point, ...], Coverage]:
        chosen = check_points(task, derive(check_key, "points"))
        usual = max(1.0, median(work(task, sizes) for sizes in task.public))
        points = tuple(Point(one, signature(task, one), work(task, one.size_map) / usual) for one in chosen.points)
        self.close()
        self._check_key, self._ordinary = check_key, 0
        self._points = {(reference, point.workload): (task, point) for point in points}
        return points, chosen.coverage

    def open(self, reference: str, workload: Workload) -> WorkloadArena:
        """Closes the arena of the point before."""
        self.close()
        task, point = self._points[reference, workload]
        secret = derive(self._key, "checks", reference, self._check_key.hex())
        pool = ValuePool(task, workload, secret, self._device.torch_device)
        self._arena = self._device.arena(task, workload, point.signature, pool)
        self._arena.blank()
        return self._arena

    @property
    def current(self) -> WorkloadArena:
        assert self._arena is not None, "point comes first"
        return self._arena

    def draw(self, runner: str, first: list[SeededDraw], specials: list[str]) -> list[PoolEntry]:
        """Special values are planted among those of the first family, which is the plainest. Families take turns."""
        pool, draws = self.current.pool, list(first)
        families = list(pool.task.families)
        random.Random(seed(self._key, "check families", self._check_key.hex())).shuffle(families)
        for number, special in enumerate(specials):
            family = pool.task.families[0]
            if not special:
                family = families[self._ordinary % len(families)]
                self._ordinary += 1
            number_of = seed(pool.key, "check", runner, pool.workload.label, number)
            draws.append(SeededDraw(str(family), number_of, special))
        return list(pool.checked(draws))

    def close(self) -> None:
        if self._arena is None:
            return
        large = sum(extent_bytes(tensor) for tensor in self._arena.signature.tensors) > LARGE
        self._arena.close()
        self._arena = None
        if large:
            self._device.tidy()
