"""One candidate on its way through the stages: building, safety, every workload and the clock.

The order of the stages is here. Nothing in here loads candidate code or holds answers.
"""

from __future__ import annotations

import math
import random
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Literal

from kernelwright.contracts import Candidate
from kernelwright.errors import KernelwrightError
from kernelwright.judge.keys import derive, seed
from kernelwright.judge.measure import Fault, Measurement, Rejected
from kernelwright.judge.oracle.client import OpenTask, Posed, Witness, close_all
from kernelwright.judge.settings import Progress, Settings
from kernelwright.judge.verdict import (
    JudgeEvidence,
    Outcome,
    ProcessEvidence,
    Profile,
    Reason,
    Stage,
    Verdict,
    WorkloadResult,
)
from kernelwright.judge.warden import Ending
from kernelwright.judge.workshop import Job, Workshop

HIDDEN_PER_JUDGING = 3


@dataclass(frozen=True)
class Step:
    """A runner of its own, on one workload, to look for faults of memory, for wrong results and the time, or for what
    costs the time."""

    purpose: Literal["sanitized", "timed", "profiled"]
    posed: Posed

    @property
    def name(self) -> str:
        return f"{self.purpose} {self.posed.workload.label}"


@dataclass
class Judging:
    workshop: Workshop
    settings: Settings
    task: OpenTask
    candidate: Candidate
    subkey: bytes
    begin: float = field(default_factory=time.perf_counter)
    hidden: tuple[Posed, ...] = ()
    light: tuple[Posed, ...] = ()
    results: list[WorkloadResult] = field(default_factory=list)
    spent: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    build_seconds: float | None = None
    artefact: str | None = None
    arena: str = "none"
    failed_on: str | None = None
    witness: Witness | None = None

    def run(self, progress: Progress) -> Verdict:
        self.workshop.baselines.prepare(self.settings.baselines)
        self.hidden = () if self.settings.public_only else self._hidden()
        self.light = self._light() if self._inspecting else ()
        job = self.workshop.job(self.candidate, self.task)
        try:
            return self._stages(job, progress)
        finally:
            with self._timed("end"):
                job.close()

    def _stages(self, job: Job, progress: Progress) -> Verdict:
        progress("building")
        for part in (self.task.public, (*self.hidden, *self.light)):
            with self._timed("build"):
                fault = job.build(part, inspected=self._inspecting)
            self.build_seconds, self.artefact = job.build_seconds, job.artefact
            if fault is not None:
                return self._verdict(Outcome.rejected, fault, hidden=part is not self.task.public)
        for step in self.steps((*self.task.public, *self.hidden)):
            fault = self._take(step, job, progress)
            if fault is not None:
                return self._verdict(Outcome.rejected, fault, hidden=step.posed.workload.hidden)
        if job.unfinished is not None:
            return self.undecided(job.unfinished)
        if self.settings.profile:
            self._profile(job, progress)
        return self._verdict(Outcome.accepted)

    @contextmanager
    def _timed(self, stage: str) -> Iterator[None]:
        begin = time.perf_counter()
        try:
            yield
        finally:
            self.spent[stage] += time.perf_counter() - begin

    def steps(self, posed: tuple[Posed, ...]) -> list[Step]:
        """Sanitizers first. A replay begins where the candidate failed, since values are others in the rest of it."""
        inspected = (*self._inspected(), *self.light) if self._inspecting else ()
        steps = [Step("sanitized", one) for one in inspected]
        steps += [Step("timed", one) for one in posed]
        retrial = self.settings.retrial
        return sorted(steps, key=lambda step: retrial is None or step.name != retrial.failed_on)

    def _inspected(self) -> list[Posed]:
        return [min(part, key=_elements) for part in (self.task.public, self.hidden) if part]

    def _light(self) -> tuple[Posed, ...]:
        """A workload for all sanitizers, where one that they are to look at is too heavy for some of them."""
        if self.settings.retrial is not None:
            return self.workshop.oracle.pose(self.task, self.settings.retrial.light)
        if any(self.workshop.heavy(self.task, posed) for posed in self._inspected()):
            return self.workshop.oracle.light(self.task)
        return ()

    def _take(self, step: Step, job: Job, progress: Progress) -> Fault | None:
        if step.purpose == "sanitized":
            progress("safety")
            with self._timed("safety"):
                return self._inspect(step, job)
        workload = step.posed.workload
        name = f"hidden {self.hidden.index(step.posed) + 1}" if workload.hidden else workload.label
        return self._measure(step, job, partial(_prefixed, progress, name))

    def undecided(self, why: str) -> Verdict:
        return self._verdict(Outcome.undecided, Fault(Stage.run, Reason.judge_failed, JudgeEvidence(message=why)))

    def _verdict(self, outcome: Outcome, fault: Fault | None = None, *, hidden: bool = False) -> Verdict:
        return Verdict(
            candidate=self.candidate.id,
            name=self.candidate.name,
            task=self.task.name,
            contract=self.candidate.contract,
            verdict=outcome,
            stage=fault.stage if fault else Stage.complete,
            reason=fault.reason if fault else Reason.right,
            evidence=fault.evidence if fault else None,
            failed_on_hidden=hidden,
            workloads=tuple(self.results),
            conditions=self.workshop.conditions(self.arena, self._safety),
            build_seconds=self.build_seconds,
            artefact=self.artefact,
            seconds=time.perf_counter() - self.begin,
            stage_seconds=dict(self.spent),
        )

    @property
    def _safety(self) -> str:
        return (self.workshop.safety if self.settings.safety else None) or "none"

    @property
    def _inspecting(self) -> bool:
        return self._safety != "none"

    def _hidden(self) -> tuple[Posed, ...]:
        if self.settings.retrial is not None:
            return self.workshop.oracle.pose(self.task, self.settings.retrial.hidden)
        return self.workshop.oracle.hidden(self.task, self.candidate.id, HIDDEN_PER_JUDGING)

    def _begin(self, step: Step) -> None:
        """A new runner comes, and is given values that nobody can foresee; a replay begins with the telling ones."""
        retrial = self.settings.retrial
        failed_here = retrial is not None and retrial.failed_on == step.name
        first = (retrial.witness,) if retrial is not None and failed_here and retrial.witness is not None else ()
        key = derive(self.subkey, step.purpose).hex()
        self.workshop.oracle.begin(self.task, step.posed.workload, key, first)

    def _reject(self, step: Step, fault: Fault) -> Fault:
        self.witness = self.workshop.oracle.forget()
        self.failed_on = step.name
        if isinstance(fault.evidence, ProcessEvidence):
            self.workshop.recover()
        return fault

    def _inspect(self, step: Step, job: Job) -> Fault | None:
        self.arena, descriptors = self.workshop.oracle.arena(self.task, step.posed.workload)
        try:
            self._begin(step)
            fault = job.inspect(step.posed, descriptors, quick=self._quick(step.posed))
            return None if fault is None else self._reject(step, fault)
        finally:
            close_all(descriptors)

    def _quick(self, posed: Posed) -> bool:
        return bool(self.light) and posed not in self.light and self.workshop.heavy(self.task, posed)

    def _measure(self, step: Step, job: Job, progress: Progress) -> Fault | None:
        shop, posed, names = self.workshop, step.posed, self.settings.baselines
        with self._timed("arena"):
            self.arena, descriptors = shop.oracle.arena(self.task, posed.workload)
        try:
            with self._timed("baselines"), shop.working():
                expected = shop.baselines.open(names, shop.oracle, self.task, posed, descriptors, progress)
            with self._timed("clock"):
                clock = shop.clock()
            with self._timed("start"):
                self._begin(step)
                runner = job.start(posed, descriptors)
        finally:
            close_all(descriptors)
        with runner:
            order = random.Random(seed(self.subkey, "turns", posed.workload.label))
            baselines = shop.baselines.processes(names)
            measurement = Measurement(shop.oracle, posed, runner, baselines, expected, clock, order)
            with self._timed("start"):
                reply = runner.ready()
            if reply.ending is not Ending.ok:
                shop.recover()
                return measurement.not_ready(reply)
            with self._timed("trials"), shop.measuring():
                try:
                    self.results.append(job.finish(self._trials(measurement, progress)))
                    return None
                except Rejected as rejected:
                    fault = rejected.fault
        self.results.append(_unmeasured(posed))
        return self._reject(step, fault)

    def _profile(self, job: Job, progress: Progress) -> None:
        """Of the first public workload. It is accepted by now, and nothing that happens here changes that."""
        step = Step("profiled", self.task.public[0])
        progress("profile")
        with self._timed("profile"):
            try:
                told = self._profiled(step, job)
            except (KernelwrightError, OSError) as error:
                told = Profile(missing=str(error))
        workload = step.posed.workload
        self.results = [
            result.model_copy(update={"profile": told})
            if (result.label, result.hidden) == (workload.label, workload.hidden)
            else result
            for result in self.results
        ]

    def _profiled(self, step: Step, job: Job) -> Profile:
        known = job.known_profile(step.posed)
        if known is not None:
            return known
        _, descriptors = self.workshop.oracle.arena(self.task, step.posed.workload)
        try:
            self._begin(step)
            return job.profile(step.posed, descriptors)
        finally:
            close_all(descriptors)

    def _trials(self, measurement: Measurement, progress: Progress) -> WorkloadResult:
        oracle = self.workshop.oracle
        prepare = None
        if self.task.constant:
            oracle.load()
            prepare = measurement.call("", op="p")
        done = 0

        def tick() -> None:
            nonlocal done
            done += 1
            progress(f"trial {done}")

        times = measurement.run(self.settings.effort, tick)
        result = measurement.result(times)
        deterministic = measurement.deterministic()
        precision = None if result.hidden or self.results else oracle.precision()
        return result.model_copy(
            update={"deterministic": deterministic, "prepare_seconds": prepare, "precision": precision}
        )


def _prefixed(progress: Progress, prefix: str, text: str) -> None:
    progress(f"{prefix}: {text}")


def _elements(posed: Posed) -> int:
    return sum(math.prod(tensor.shape) for tensor in posed.signature.tensors)


def _unmeasured(posed: Posed) -> WorkloadResult:
    workload = posed.workload
    return WorkloadResult(label=workload.label, sizes=workload.size_map, dtype=workload.dtype, hidden=workload.hidden)
