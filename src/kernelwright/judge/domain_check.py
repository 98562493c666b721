"""The domain check: untimed, checked calls at points all over the sizes that a task declares, and on special values.

The points are drawn afresh for each judging, so that no candidate can learn which sizes are asked next.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace

from kernelwright.isolation.warden import Ending
from kernelwright.judge.cpu.safety import UNTIMED
from kernelwright.judge.keys import derive
from kernelwright.judge.oracle_client import (
    CheckPoint,
    DomainChecks,
    FailingDraw,
    OpenTask,
    OracleClient,
    WorkloadSpec,
    close_descriptors,
)
from kernelwright.judge.timing.measure import DEADLINE, Measurement, Rejected, Rejection
from kernelwright.judge.verdict import DomainCheck, Stage, WorkloadResult
from kernelwright.judge.workshop import Job
from kernelwright.tasks.domain import Coverage

ORDINARY = ""  # in place of special values: values of an input family
LIGHT = 4.0  # median public workloads; special values are planted at points of no more work
LEAST_DEADLINE = 5.0
UNKNOWN_SECONDS = 0.1  # of a public workload, where none was timed

Timer = Callable[[str], AbstractContextManager[None]]


@dataclass(frozen=True)
class PlannedPoint:
    """A point with the calls that are made there: special values by name, or `ORDINARY`."""

    point: CheckPoint
    calls: tuple[str, ...]

    @property
    def spec(self) -> WorkloadSpec:
        return self.point.spec


def plan_calls(checks: DomainChecks, key: bytes) -> tuple[PlannedPoint, ...]:
    """A call on ordinary values at every point; every kind of special values at some light point, and one of them at
    each other light point. The key decides which, and in what order a point gets them."""
    order = random.Random(derive(key, "calls"))
    names = [name for name, _ in checks.specials]
    order.shuffle(names)
    lightest = min((point.work for point in checks.points), default=0.0)
    light = [number for number, point in enumerate(checks.points) if point.work <= max(LIGHT, lightest)]
    order.shuffle(light)
    planted: list[list[str]] = [[] for _ in checks.points]
    for turn, name in enumerate(names):
        planted[light[turn % len(light)]].append(name)
    for number in light[len(names) :] if names else ():
        planted[number].append(order.choice(names))
    planned = []
    for point, specials in zip(checks.points, planted, strict=True):
        calls = [ORDINARY, *specials]
        order.shuffle(calls)
        planned.append(PlannedPoint(point, tuple(calls)))
    return tuple(planned)


def call_deadline(results: Sequence[WorkloadResult], work: float) -> float:
    """Seconds for a call of so much work: as for a trial, from the slowest that public workloads took."""
    taken = [time.seconds for result in results for time in result.baselines]
    taken += [result.seconds for result in results if result.seconds is not None]
    return max(LEAST_DEADLINE, DEADLINE * max(taken, default=UNKNOWN_SECONDS) * max(1.0, work))


@dataclass(frozen=True)
class FailedPoint:
    planned: PlannedPoint
    rejection: Rejection


@dataclass
class DomainRun:
    """One domain check of one candidate. `seconds` are a limit: points that are left then are dropped, of which those
    that add least come last."""

    oracle: OracleClient
    task: OpenTask
    checks: DomainChecks
    key: bytes
    seconds: float
    deadline: Callable[[float], float]
    timer: Timer
    level: str = "none"
    done: list[PlannedPoint] = field(default_factory=list)

    def run(
        self, job: Job, tick: Callable[[str], None], again: tuple[str, FailingDraw | None] | None = None
    ) -> FailedPoint | DomainCheck:
        """`again` is the label of the point where a replayed candidate failed, and on what: it comes first."""
        begin = time.perf_counter()
        planned = plan_calls(self.checks, self.key)
        if again is not None:
            planned = tuple(sorted(planned, key=lambda one: one.spec.workload.label != again[0]))
        for number, one in enumerate(planned, 1):
            if time.perf_counter() - begin > self.seconds:
                break
            tick(f"{number} of {len(planned)} points")
            here = again is not None and one.spec.workload.label == again[0]
            draw = again[1] if again is not None and here else None
            rejection = self._check(job, one, (draw,) if draw is not None else ())
            if rejection is not None:
                return FailedPoint(one, replace(rejection, stage=Stage.domain))
            self.done.append(one)
        return self._result(planned, time.perf_counter() - begin)

    def _check(self, job: Job, planned: PlannedPoint, first: tuple[FailingDraw, ...]) -> Rejection | None:
        oracle, spec = self.oracle, planned.spec
        with self.timer("domain: arena"):
            self.level, descriptors = oracle.point(self.task, spec.workload)
        with self.timer("domain: start"):
            try:
                oracle.begin_at_point(self.task, spec.workload, self.key.hex(), planned.calls, first)
                runner = job.check(spec, descriptors)
            finally:
                close_descriptors(descriptors)
        with runner:
            expected = {"domain": self.deadline(planned.point.work) / DEADLINE}
            measurement = Measurement(oracle, spec, runner, {}, expected, UNTIMED, random.Random(0))
            with self.timer("domain: start"):
                reply = runner.ready()
            if reply.ending is not Ending.ok:
                return measurement.not_ready(reply)
            try:
                for number, special in enumerate((*(draw.special for draw in first), *planned.calls)):
                    with self.timer("domain: values"):
                        family = oracle.load()
                    with self.timer("domain: calls"):
                        if number == 0 and self.task.constant:
                            measurement.call(family, op="p")
                        measurement.call(family, special=special)
            except Rejected as rejected:
                return rejected.rejection
        return None

    def _result(self, planned: tuple[PlannedPoint, ...], seconds: float) -> DomainCheck:
        covered = self._covered(planned)
        called = {special for one in self.done for special in one.calls}
        kinds = {kind: None for name, kind in self.checks.specials if name in called}
        unplanted = [name for name, _ in self.checks.specials if name not in called]
        possible = self.checks.coverage
        return DomainCheck(
            points=len(self.done),
            calls=sum(len(one.calls) for one in self.done),
            classes=covered.classes[0],
            classes_possible=possible.classes[1],
            coarse_pairs=covered.coarse_pairs[0],
            coarse_pairs_possible=possible.coarse_pairs[1],
            fine_pairs=covered.fine_pairs[0],
            fine_pairs_possible=possible.fine_pairs[1],
            missing=(*covered.missing, *(f"special values: {name}" for name in unplanted)),
            values=tuple(kinds),
            opted_out=self.checks.opted_out,
            seconds=seconds,
        )

    def _covered(self, planned: tuple[PlannedPoint, ...]) -> Coverage:
        if len(self.done) == len(planned):
            return self.checks.coverage
        return self.oracle.coverage(self.task, tuple(one.spec.workload for one in self.done))


@contextmanager
def points_left(oracle: OracleClient) -> Iterator[None]:
    """Gives the memory of the last point back, whatever happened there."""
    try:
        yield
    finally:
        oracle.leave()
