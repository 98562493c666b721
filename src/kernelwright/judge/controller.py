"""The controller: takes a candidate through building, safety, every workload and the clock, to a verdict.

It schedules and decides. It never loads candidate code and holds no answers; the order of the stages is here.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from types import TracebackType

from kernelwright.contracts import Candidate
from kernelwright.devices import lock
from kernelwright.devices.cpu import probe
from kernelwright.errors import CannotDecide, KernelwrightError
from kernelwright.judge import sandbox, statistics
from kernelwright.judge.baselines import BASELINES, BaselineProcess
from kernelwright.judge.build import BuildFailure, Built, build_both
from kernelwright.judge.keys import judge_key, seed
from kernelwright.judge.measure import Effort, Fault, Measurement, Rejected
from kernelwright.judge.native import compiler_version
from kernelwright.judge.nothing import empty_trial_seconds
from kernelwright.judge.oracle.client import OpenTask, OracleClient, Posed, close_all
from kernelwright.judge.runner import start_runner
from kernelwright.judge.safety import inspect, sanitizers_available
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

Progress = Callable[[str], None]


def _quiet(_: str) -> None:
    return None


def _prefixed(progress: Progress, prefix: str, text: str) -> None:
    progress(f"{prefix}: {text}")


@dataclass(frozen=True)
class Settings:
    """How to judge. The defaults are what a claim needs."""

    baselines: tuple[str, ...] = BASELINES
    threads: int = 0  # 0: as many as there are cores to use
    effort: Effort = field(default_factory=Effort)
    public_only: bool = False
    safety: bool = True
    key: bytes | None = None


@dataclass
class _Progressing:
    """What is known of a candidate so far."""

    candidate: Candidate
    task: OpenTask
    conditions: Conditions
    begin: float = field(default_factory=time.perf_counter)
    results: list[WorkloadResult] = field(default_factory=list)
    built: dict[tuple[str, ...], Built] = field(default_factory=dict)
    arena: str = ""

    def verdict(
        self,
        outcome: Outcome,
        stage: Stage,
        reason: Reason,
        fault: Fault | None = None,
        *,
        hidden: bool = False,
    ) -> Verdict:
        first = next(iter(self.built.values()), None)
        return Verdict(
            candidate=self.candidate.id,
            name=self.candidate.name,
            task=self.task.name,
            contract=self.candidate.contract,
            verdict=outcome,
            stage=stage,
            reason=reason,
            evidence=fault.evidence if fault else None,
            failed_on_hidden=hidden,
            workloads=tuple(self.results),
            conditions=self.conditions.model_copy(update={"arena": self.arena or "none"}),
            build_seconds=first.seconds if first else None,
            artefact=first.digest if first else None,
            seconds=time.perf_counter() - self.begin,
        )


class Judge:
    """Judges candidates one after another; the oracle and the baselines stay warm in between."""

    def __init__(self, settings: Settings | None = None) -> None:
        self.settings = settings or Settings()
        sandbox.protect_this_process()
        self._threads = self.settings.threads or len(probe().cores)
        self._cpus = probe().cores[: self._threads]  # no core more than there are threads, for anybody
        self._key = self.settings.key or judge_key()
        sandbox.capabilities()  # compiles the warden, or says why not, before anything is started
        self._oracle = OracleClient(self._key, self._threads)
        self._baselines = {name: BaselineProcess(name, self._threads, self._cpus) for name in self.settings.baselines}
        self._tasks: dict[str, OpenTask] = {}
        self._expected: dict[tuple[str, str], dict[str, float]] = {}
        self._overhead: float | None = None

    def __enter__(self) -> Judge:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        for baseline in self._baselines.values():
            baseline.close()
        self._oracle.close()

    def open(self, task: str) -> OpenTask:
        """Reads a task once; a bad one is an error here and not a verdict."""
        if task not in self._tasks:
            self._tasks[task] = self._oracle.open(task)
        return self._tasks[task]

    def judge(self, task: str, candidate: Candidate, progress: Progress = _quiet) -> Verdict:
        """The verdict on one candidate. Raises only for what is the user's or the machine's fault."""
        opened = self.open(task)
        state = _Progressing(candidate, opened, self._conditions())
        try:
            return self._stages(state, progress)
        except CannotDecide as error:
            evidence = JudgeEvidence(message=str(error))
            fault = Fault(Stage.run, Reason.judge_failed, evidence)
            return state.verdict(Outcome.undecided, Stage.run, Reason.judge_failed, fault)

    def _stages(self, state: _Progressing, progress: Progress) -> Verdict:
        hidden = () if self.settings.public_only else self._hidden(state)
        posed = (*state.task.public, *hidden)
        fault: Fault | None = None
        on_hidden = False
        progress("building")
        fault = self._build(state, posed)
        for part in (state.task.public, hidden) if fault is None and self._inspecting else ():
            if part and fault is None:
                progress("safety")
                fault = self._inspect(state, min(part, key=_elements))
                on_hidden = part is hidden and fault is not None
        for number, one in enumerate(posed if fault is None else ()):
            hidden_number = number - len(state.task.public) + 1
            name = f"hidden {hidden_number}" if one.workload.hidden else one.workload.label
            fault = self._measure(state, one, partial(_prefixed, progress, name))
            if fault is not None:
                on_hidden = one.workload.hidden
                break
        if fault is not None:
            return state.verdict(Outcome.rejected, fault.stage, fault.reason, fault, hidden=on_hidden)
        return state.verdict(Outcome.accepted, Stage.complete, Reason.right)

    @property
    def _inspecting(self) -> bool:
        return self.settings.safety and sanitizers_available()

    def _hidden(self, state: _Progressing) -> tuple[Posed, ...]:
        return self._oracle.hidden(state.task, state.candidate.id, HIDDEN_PER_JUDGING)

    def _conditions(self) -> Conditions:
        return Conditions(
            sandbox=sandbox.capabilities().level,
            arena="none",
            safety="asan+ubsan" if self._inspecting else "none",
            device=f"cpu: {probe().model}",
            threads=self._threads,
            judge_version=__version__,
            compiler=compiler_version(),
        )

    # --- stages ---------------------------------------------------------------------------------------------------

    def _build(self, state: _Progressing, posed: tuple[Posed, ...]) -> Fault | None:
        for one in posed:
            key = _types(one)
            if key in state.built:
                continue
            plain, sanitized = build_both(state.candidate, one.signature, sanitized=self._inspecting)
            for result in (plain, sanitized):
                if isinstance(result, BuildFailure):
                    reason = Reason.build_took_too_long if result.timed_out else Reason.does_not_build
                    return Fault(Stage.build, reason, BuildEvidence(lines=result.lines))
            assert isinstance(plain, Built)
            state.built[key] = plain
            if isinstance(sanitized, Built):
                state.built[(*key, "sanitized")] = sanitized
        return None

    def _inspect(self, state: _Progressing, posed: Posed) -> Fault | None:
        """The sanitizers on one workload."""
        built = state.built[(*_types(posed), "sanitized")]
        state.arena, descriptors = self._oracle.arena(state.task, posed.workload)
        try:
            self._oracle.begin(state.task, posed.workload, f"{state.candidate.id} sanitized")
            runner = start_runner(
                built.library, posed.signature, descriptors, self._threads, self._cpus, sanitized=True
            )
            with runner, lock.working():
                fault = inspect(runner, posed, self._oracle, prepare=bool(state.task.constant))
            if fault is not None:
                self._oracle.forget()
            return fault
        finally:
            close_all(descriptors)

    def _measure(self, state: _Progressing, posed: Posed, progress: Progress) -> Fault | None:
        state.arena, descriptors = self._oracle.arena(state.task, posed.workload)
        try:
            with lock.working():
                expected = self._open_baselines(state.task, posed, descriptors, progress)
            self._oracle.begin(state.task, posed.workload, state.candidate.id)
            library = state.built[_types(posed)].library
            runner = start_runner(library, posed.signature, descriptors, self._threads, self._cpus)
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
            order = random.Random(seed(self._key, "turns", state.candidate.id, posed.workload.label))
            overhead = self._empty_trial()
            with lock.measuring():
                measurement = Measurement(self._oracle, posed, runner, self._baselines, expected, overhead, order)
                try:
                    state.results.append(self._trials(state, measurement, progress))
                except Rejected as rejected:
                    state.results.append(_unmeasured(posed))
                    self._oracle.forget()
                    return rejected.fault
        return None

    def _trials(self, state: _Progressing, measurement: Measurement, progress: Progress) -> WorkloadResult:
        prepare = None
        if state.task.constant:
            self._oracle.load()
            prepare = measurement.call("", op="p")
        done = 0

        def tick() -> None:
            nonlocal done
            done += 1
            progress(f"trial {done}")

        times = measurement.run(self.settings.effort, tick)
        result = measurement.result(times)
        deterministic = measurement.deterministic()
        precision = None if result.hidden or len(state.results) else self._oracle.precision()
        return result.model_copy(
            update={"deterministic": deterministic, "prepare_seconds": prepare, "precision": precision}
        )

    # --- baselines ------------------------------------------------------------------------------------------------

    def _open_baselines(
        self, task: OpenTask, posed: Posed, descriptors: list[int], progress: Progress
    ) -> dict[str, float]:
        """Lets every baseline map the arena, checks that it is right, and learns about how long it takes."""
        key = (task.reference, f"{posed.workload.hidden} {posed.workload.label}")
        known = self._expected.setdefault(key, {})
        if not self._baselines:
            return known
        self._oracle.begin(task, posed.workload, f"baselines {time.monotonic_ns()}")
        self._oracle.load()
        for name in self._baselines:
            baseline = self._living(name)
            if name not in known:
                progress(f"preparing the {name} baseline")
            baseline.open(task, posed, descriptors)
            if name not in known:
                known[name] = self._first_times(name, baseline)
        return known

    def _living(self, name: str) -> BaselineProcess:
        """A baseline that died (of memory, of a bug in a compiler) costs one candidate its speed, not all of them."""
        if not self._baselines[name].alive:
            self._baselines[name].close()
            self._baselines[name] = BaselineProcess(name, self._threads, self._cpus)
        return self._baselines[name]

    def _first_times(self, name: str, baseline: BaselineProcess) -> float:
        self._oracle.restore()
        baseline.write()
        if answer := self._oracle.check():
            raise CannotDecide(
                f"the {name} baseline gives a wrong result, so nothing can be compared with it: {answer}"
            )
        seconds = []
        for _ in range(3):
            self._oracle.restore()
            seconds.append(baseline.time())
        return statistics.median(seconds)

    def _empty_trial(self) -> float:
        if self._overhead is None:
            self._overhead = empty_trial_seconds(self._threads, self._cpus)
        return self._overhead


def _types(posed: Posed) -> tuple[str, ...]:
    """What a build depends on: dtypes and ranks, not sizes."""
    return tuple(f"{tensor.dtype}/{len(tensor.shape)}" for tensor in posed.signature.tensors)


def _elements(posed: Posed) -> int:
    total = 0
    for tensor in posed.signature.tensors:
        count = 1
        for size in tensor.shape:
            count *= size
        total += count
    return total


def _unmeasured(posed: Posed) -> WorkloadResult:
    workload = posed.workload
    return WorkloadResult(label=workload.label, sizes=workload.size_map, dtype=workload.dtype, hidden=workload.hidden)


__all__ = ["Judge", "KernelwrightError", "Settings"]
