"""One candidate on its way through the stages: building, safety, every workload and the clock.

The order of the stages is here. Nothing in here loads candidate code or holds answers.
"""

from __future__ import annotations

import math
import random
import time
from dataclasses import dataclass, field
from functools import partial
from typing import Literal

from kernelwright.contracts import Candidate
from kernelwright.devices import lock
from kernelwright.devices.cpu import probe
from kernelwright.judge import sandbox
from kernelwright.judge.baselines import Baselines
from kernelwright.judge.build import BuildFailure, Built, build_both
from kernelwright.judge.keys import derive, seed
from kernelwright.judge.measure import Fault, Measurement, Rejected
from kernelwright.judge.native import compiler_version
from kernelwright.judge.nothing import Overhead, empty_trial
from kernelwright.judge.oracle.client import OpenTask, OracleClient, Posed, Witness, close_all
from kernelwright.judge.runner import start_runner
from kernelwright.judge.safety import inspect, sanitizers_available
from kernelwright.judge.settings import Progress, Settings
from kernelwright.judge.verdict import (
    BuildEvidence,
    Conditions,
    JudgeEvidence,
    Outcome,
    ProcessEvidence,
    Reason,
    Stage,
    Verdict,
    WorkloadResult,
)
from kernelwright.judge.warden import Ending
from kernelwright.version import __version__

HIDDEN_PER_JUDGING = 3


@dataclass
class Workshop:
    """What stays up from one candidate to the next."""

    oracle: OracleClient
    baselines: Baselines
    threads: int
    cpus: tuple[int, ...]
    known_overhead: Overhead | None = None

    def overhead(self) -> Overhead:
        """Measured while no candidate is loaded."""
        if self.known_overhead is None:
            self.known_overhead = empty_trial(self.threads, self.cpus)
        return self.known_overhead


@dataclass(frozen=True)
class Step:
    """A runner of its own, on one workload, to look for faults of memory or for wrong results and the time."""

    purpose: Literal["sanitized", "timed"]
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
    results: list[WorkloadResult] = field(default_factory=list)
    built: dict[tuple[str, ...], Built] = field(default_factory=dict)
    arena: str = "none"
    failed_on: str | None = None
    witness: Witness | None = None

    def run(self, progress: Progress) -> Verdict:
        self.workshop.baselines.prepare(self.settings.baselines)
        self.hidden = () if self.settings.public_only else self._hidden()
        posed = (*self.task.public, *self.hidden)
        progress("building")
        fault = self._build(posed)
        if fault is not None:
            return self._verdict(Outcome.rejected, fault)
        for step in self.steps(posed):
            fault = self._take(step, progress)
            if fault is not None:
                return self._verdict(Outcome.rejected, fault, hidden=step.posed.workload.hidden)
        return self._verdict(Outcome.accepted)

    def steps(self, posed: tuple[Posed, ...]) -> list[Step]:
        """Sanitizers first. A replay begins where the candidate failed, since values are others in the rest of it."""
        parts = (self.task.public, self.hidden) if self._inspecting else ()
        steps = [Step("sanitized", min(part, key=_elements)) for part in parts if part]
        steps += [Step("timed", one) for one in posed]
        retrial = self.settings.retrial
        return sorted(steps, key=lambda step: retrial is None or step.name != retrial.failed_on)

    def _take(self, step: Step, progress: Progress) -> Fault | None:
        if step.purpose == "sanitized":
            progress("safety")
            return self._inspect(step)
        workload = step.posed.workload
        name = f"hidden {self.hidden.index(step.posed) + 1}" if workload.hidden else workload.label
        return self._measure(step, partial(_prefixed, progress, name))

    def undecided(self, why: str) -> Verdict:
        return self._verdict(Outcome.undecided, Fault(Stage.run, Reason.judge_failed, JudgeEvidence(message=why)))

    def _verdict(self, outcome: Outcome, fault: Fault | None = None, *, hidden: bool = False) -> Verdict:
        first = next(iter(self.built.values()), None)
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
            conditions=self._conditions(),
            build_seconds=first.seconds if first else None,
            artefact=first.digest if first else None,
            seconds=time.perf_counter() - self.begin,
        )

    def _conditions(self) -> Conditions:
        return Conditions(
            sandbox=sandbox.capabilities().level,
            arena=self.arena,
            safety="asan+ubsan" if self._inspecting else "none",
            device=f"cpu: {probe().model}",
            threads=self.workshop.threads,
            judge_version=__version__,
            compiler=compiler_version(),
        )

    @property
    def _inspecting(self) -> bool:
        return self.settings.safety and sanitizers_available()

    def _hidden(self) -> tuple[Posed, ...]:
        if self.settings.retrial is not None:
            return self.workshop.oracle.pose(self.task, self.settings.retrial.hidden)
        return self.workshop.oracle.hidden(self.task, self.candidate.id, HIDDEN_PER_JUDGING)

    def _build(self, posed: tuple[Posed, ...]) -> Fault | None:
        for one in posed:
            key = _types(one)
            if key in self.built:
                continue
            plain, sanitized = build_both(self.candidate, one.signature, sanitized=self._inspecting)
            for result in (plain, sanitized):
                if isinstance(result, BuildFailure):
                    reason = Reason.build_took_too_long if result.timed_out else Reason.does_not_build
                    return Fault(Stage.build, reason, BuildEvidence(lines=result.lines))
            assert isinstance(plain, Built)
            self.built[key] = plain
            if isinstance(sanitized, Built):
                self.built[(*key, "sanitized")] = sanitized
        return None

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
        return fault

    def _inspect(self, step: Step) -> Fault | None:
        shop, posed = self.workshop, step.posed
        built = self.built[(*_types(posed), "sanitized")]
        self.arena, descriptors = shop.oracle.arena(self.task, posed.workload)
        try:
            self._begin(step)
            runner = start_runner(built.library, posed.signature, descriptors, shop.threads, shop.cpus, sanitized=True)
            with runner, lock.working():
                fault = inspect(runner, posed, shop.oracle, prepare=bool(self.task.constant))
            return None if fault is None else self._reject(step, fault)
        finally:
            close_all(descriptors)

    def _measure(self, step: Step, progress: Progress) -> Fault | None:
        shop, posed = self.workshop, step.posed
        self.arena, descriptors = shop.oracle.arena(self.task, posed.workload)
        try:
            with lock.working():
                expected = shop.baselines.open(
                    self.settings.baselines, shop.oracle, self.task, posed, descriptors, progress
                )
            overhead = shop.overhead()
            self._begin(step)
            library = self.built[_types(posed)].library
            runner = start_runner(library, posed.signature, descriptors, shop.threads, shop.cpus)
        finally:
            close_all(descriptors)
        with runner:
            reply = runner.ready()
            if reply.ending is not Ending.ok:
                lines = tuple(runner.log.text().strip().splitlines()[-12:])
                evidence = ProcessEvidence(
                    workload=posed.workload.label, trial=0, ending=reply.describe(), output=lines
                )
                reason = Reason.timed_out if reply.ending is Ending.timeout else Reason.does_not_load
                return Fault(Stage.load, reason, evidence)
            order = random.Random(seed(self.subkey, "turns", posed.workload.label))
            baselines = shop.baselines.processes(self.settings.baselines)
            with lock.measuring():
                measurement = Measurement(shop.oracle, posed, runner, baselines, expected, overhead, order)
                try:
                    self.results.append(self._trials(measurement, progress))
                except Rejected as rejected:
                    self.results.append(_unmeasured(posed))
                    return self._reject(step, rejected.fault)
        return None

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


def _types(posed: Posed) -> tuple[str, ...]:
    """What a build depends on: dtypes and ranks, not sizes."""
    return tuple(f"{tensor.dtype}/{len(tensor.shape)}" for tensor in posed.signature.tensors)


def _elements(posed: Posed) -> int:
    return sum(math.prod(tensor.shape) for tensor in posed.signature.tensors)


def _unmeasured(posed: Posed) -> WorkloadResult:
    workload = posed.workload
    return WorkloadResult(label=workload.label, sizes=workload.size_map, dtype=workload.dtype, hidden=workload.hidden)
