"""The domain check: untimed, checked calls at points all over the sizes that a task declares, and on special values.

The points are drawn afresh for each judging, so that no candidate can learn which sizes are asked next.
"""

from __future__ import annotations

import itertools
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
    NamedValues,
    OpenTask,
    OracleClient,
    WorkloadSpec,
    close_descriptors,
)
from kernelwright.judge.timing.measure import DEADLINE, Measurement, Rejected, Rejection
from kernelwright.judge.verdict import DomainCheck, DomainFailure, Stage, WorkloadResult
from kernelwright.judge.workshop import Job, OtherWorkload
from kernelwright.tasks.domain import Coverage

ORDINARY = ""  # in place of special values: values of an input family
UNKNOWN_KIND = "another"  # of special values that an older certificate names
LIGHT = 4.0  # median public workloads; special values are planted at points of no more work
LEAST_DEADLINE = 5.0
HEAVIEST = 3  # of these points, where values are planted that show where much is added up
ROOM = 16  # of every size, where special values are planted first
LITTLE = 0.25  # median public workloads; at points of no more work, calls come first that are not checked
MOST_UNCHECKED = 24
CHOICE = 4  # points of which one is called beside another
UNKNOWN_SECONDS = 0.1  # of a public workload, where none was timed

Timer = Callable[[str], AbstractContextManager[None]]


@dataclass(frozen=True)
class PlannedPoint:
    """A point with the calls that are made there: special values by name, or `ORDINARY`. Before them, on a CPU, come
    `unchecked` calls: a kernel that counts its calls must not know the domain check by how few there are. The first
    call of all is on the sizes of an `other` point: a kernel must not keep those of its first call."""

    point: CheckPoint
    calls: tuple[str, ...]
    unchecked: int = 0
    other: CheckPoint | None = None

    @property
    def spec(self) -> WorkloadSpec:
        return self.point.spec


def plan_calls(checks: DomainChecks, key: bytes) -> tuple[PlannedPoint, ...]:
    """A call on ordinary values at every point; all special values at some light point of a dtype that they hold for,
    with room for them, every kind in every such dtype, and one of them at each other light point. The key decides
    which, and in what order a point gets them."""
    order = random.Random(derive(key, "calls"))
    specials = list(checks.specials)
    order.shuffle(specials)
    lightest = min((point.work for point in checks.points), default=0.0)
    light = [number for number, point in enumerate(checks.points) if point.work <= max(LIGHT, lightest)]
    order.shuffle(light)
    light.sort(key=lambda number: checks.points[number].work > LITTLE)  # first where calls come before that say nothing
    roomy = _roomy(checks.points)
    planted: list[list[str]] = [[] for _ in checks.points]
    dtypes = [point.spec.workload.dtype for point in checks.points]
    met: set[tuple[str, str]] = set()

    def plant(values: NamedValues, where: Sequence[int]) -> None:
        if where:
            number = min(where, key=lambda one: (one not in roomy, len(planted[one])))
            planted[number].append(values.name)
            met.add((values.kind, dtypes[number]))

    for values in specials:
        plant(values, [number for number in light if dtypes[number] in values.dtypes])
    for values in specials:
        bearing = [number for number in light if values.heavy and dtypes[number] in values.dtypes]
        for number in sorted(bearing, key=lambda one: checks.points[one].work)[-HEAVIEST:]:
            if values.name not in planted[number]:
                plant(values, [number])
    for values, dtype in itertools.product(specials, dict.fromkeys(dtypes)):
        if dtype in values.dtypes and (values.kind, dtype) not in met:
            plant(values, [number for number in light if dtypes[number] == dtype])
    for number in light:
        fitting = [values for values in specials if dtypes[number] in values.dtypes]
        if fitting and not planted[number]:
            plant(order.choice(fitting), [number])
    planned = []
    for point, names in zip(checks.points, planted, strict=True):
        calls = [ORDINARY, *names]
        order.shuffle(calls)
        unchecked = order.randint(0, MOST_UNCHECKED) if point.work <= LITTLE else 0
        planned.append(PlannedPoint(point, tuple(calls), unchecked, _least_alike(point, checks.points, order)))
    return tuple(planned)


def _least_alike(point: CheckPoint, points: Sequence[CheckPoint], order: random.Random) -> CheckPoint | None:
    """Of some light points of the same dtype, the one that has most sizes that are others."""
    here = point.spec.workload
    light = [one for one in points if one.work <= LITTLE and one.spec.workload.dtype == here.dtype]

    def unlike(one: CheckPoint) -> int:
        return sum(value != here.size_map[name] for name, value in one.spec.workload.sizes)

    return max(order.sample(light, min(CHOICE, len(light))), key=unlike, default=None)


def _roomy(points: Sequence[CheckPoint]) -> frozenset[int]:
    """The points of which no size is next to nothing, though it is more elsewhere: in one row, or rows of one element,
    most of what special values show cannot show."""
    sizes = [point.spec.workload.size_map for point in points]
    most = {name: max(each[name] for each in sizes) for name in (sizes[0] if sizes else ())}
    return frozenset(
        number for number, each in enumerate(sizes) if all(each[name] >= min(ROOM, most[name]) for name in most)
    )


def call_deadline(results: Sequence[WorkloadResult], work: float) -> float:
    """Seconds for a call of so much work: as for a trial, from the slowest that public workloads took."""
    taken = [time.seconds for result in results for time in result.baselines]
    taken += [result.seconds for result in results if result.seconds is not None]
    return max(LEAST_DEADLINE, DEADLINE * max(taken, default=UNKNOWN_SECONDS) * max(1.0, work))


@dataclass(frozen=True)
class FailedPoint:
    planned: PlannedPoint
    rejection: Rejection
    on: DomainFailure


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
    keeps_state: bool = False  # whether a candidate could count its calls
    level: str = "none"
    right: list[str] = field(default_factory=list)  # the calls at the current point whose results were right
    calling: str = ORDINARY  # the values of the current call
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
                return FailedPoint(one, replace(rejection, stage=Stage.domain), self._failed_on())
            self.done.append(one)
        return self._result(planned, time.perf_counter() - begin)

    def _check(self, job: Job, planned: PlannedPoint, first: tuple[FailingDraw, ...]) -> Rejection | None:
        oracle, spec = self.oracle, planned.spec
        other = planned.other if self.keeps_state and not self.task.constant else None
        self.right, self.calling = [], ORDINARY
        with self.timer("domain: arena"):
            self.level, descriptors, descriptors_of_other = oracle.point(
                self.task, spec, other.spec if other is not None else None
            )
        with self.timer("domain: start"):
            try:
                unchecked = planned.unchecked if self.keeps_state else 0
                oracle.begin_at_point(self.task, spec.workload, self.key.hex(), planned.calls, first, unchecked)
                beside = OtherWorkload(other.spec, descriptors_of_other) if other is not None else None
                runner = job.check(spec, descriptors, beside)
            finally:
                close_descriptors([*descriptors, *descriptors_of_other])
        with runner:
            expected = {"domain": self.deadline(planned.point.work) / DEADLINE}
            measurement = Measurement(oracle, spec, runner, {}, expected, UNTIMED, random.Random(0))
            with self.timer("domain: start"):
                reply = runner.ready()
            if reply.ending is not Ending.ok:
                return measurement.not_ready(reply)
            try:
                if beside is not None:
                    with self.timer("domain: values"):
                        family = oracle.load_other()
                    with self.timer("domain: calls"):
                        measurement.call(family, op="1")
                calls = (*(draw.special for draw in first), *planned.calls)
                for number, special in enumerate((*[ORDINARY] * unchecked, *calls)):
                    self.calling = special
                    with self.timer("domain: values"):
                        family = oracle.load()
                    with self.timer("domain: calls"):
                        if number == 0 and self.task.constant:
                            measurement.call(family, op="p")
                        measurement.call(family, special=special, checked=number >= unchecked)
                    if number >= unchecked:
                        self.right.append(special)
            except Rejected as rejected:
                return rejected.rejection
        return None

    def _failed_on(self) -> DomainFailure:
        """Its kind alone: which values in which input, and at which sizes, is for the auditor."""
        kinds = {values.name: values.kind for values in self.checks.specials}
        special = self.calling and kinds.get(self.calling, UNKNOWN_KIND)
        return DomainFailure(special=special, ordinary_right=ORDINARY in self.right)

    def _result(self, planned: tuple[PlannedPoint, ...], seconds: float) -> DomainCheck:
        covered = self._covered(planned)
        called = {special for one in self.done for special in one.calls}
        kinds = {values.kind: None for values in self.checks.specials if values.name in called}
        unplanted = [values.name for values in self.checks.specials if values.name not in called]
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
