"""One candidate on its way through the stages: building, safety, every workload and the clock.

The order of the stages is here. Nothing in here loads candidate code or holds answers.
"""

from __future__ import annotations

import math
import random
import time
from dataclasses import dataclass, field
from functools import partial

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
        on_hidden = False
        progress("building")
        fault = self._build(posed)
        for part in (self.task.public, self.hidden) if fault is None and self._inspecting else ():
            if part and fault is None:
                progress("safety")
                fault = self._inspect(min(part, key=_elements))
                on_hidden = part is self.hidden and fault is not None
        for number, one in enumerate(posed if fault is None else ()):
            hidden_number = number - len(self.task.public) + 1
            name = f"hidden {hidden_number}" if one.workload.hidden else one.workload.label
            fault = self._measure(one, partial(_prefixed, progress, name))
            if fault is not None:
                on_hidden = one.workload.hidden
                break
        if fault is not None:
            return self._verdict(Outcome.rejected, fault, hidden=on_hidden)
        return self._verdict(Outcome.accepted)

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

    def _begin(self, posed: Posed, purpose: str) -> None:
        """A new runner comes, and is given values that nobody can foresee; a replay begins with the telling ones."""
        retrial = self.settings.retrial
        failed_here = retrial is not None and retrial.failed_on == f"{purpose} {posed.workload.label}"
        first = (retrial.witness,) if retrial is not None and failed_here and retrial.witness is not None else ()
        self.workshop.oracle.begin(self.task, posed.workload, derive(self.subkey, purpose).hex(), first)

    def _reject(self, posed: Posed, purpose: str, fault: Fault) -> Fault:
        self.witness = self.workshop.oracle.forget()
        self.failed_on = f"{purpose} {posed.workload.label}"
        return fault

    def _inspect(self, posed: Posed) -> Fault | None:
        """The sanitizers on one workload."""
        shop = self.workshop
        built = self.built[(*_types(posed), "sanitized")]
        self.arena, descriptors = shop.oracle.arena(self.task, posed.workload)
        try:
            self._begin(posed, "sanitized")
            runner = start_runner(built.library, posed.signature, descriptors, shop.threads, shop.cpus, sanitized=True)
            with runner, lock.working():
                fault = inspect(runner, posed, shop.oracle, prepare=bool(self.task.constant))
            return None if fault is None else self._reject(posed, "sanitized", fault)
        finally:
            close_all(descriptors)

    def _measure(self, posed: Posed, progress: Progress) -> Fault | None:
        shop = self.workshop
        self.arena, descriptors = shop.oracle.arena(self.task, posed.workload)
        try:
            with lock.working():
                expected = shop.baselines.open(
                    self.settings.baselines, shop.oracle, self.task, posed, descriptors, progress
                )
            overhead = shop.overhead()
            self._begin(posed, "timed")
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
                    return self._reject(posed, "timed", rejected.fault)
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
