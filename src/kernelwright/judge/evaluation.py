"""One candidate on its way through the stages: building, safety, every workload and the clock.

The order of the stages is here. Nothing in here loads candidate code or holds answers.
"""

from __future__ import annotations

import math
import random
import secrets
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Literal

from kernelwright.contracts import Candidate
from kernelwright.contracts.registry import fingerprint
from kernelwright.errors import KernelwrightError
from kernelwright.isolation import levels
from kernelwright.isolation.warden import Ending
from kernelwright.judge.domain_check import DomainRun, call_deadline, plan_calls, points_left
from kernelwright.judge.keys import KEY_BYTES, derive, seed
from kernelwright.judge.oracle_client import (
    DomainChecks,
    FailingDraw,
    OpenTask,
    OracleLost,
    WorkloadSpec,
    close_descriptors,
)
from kernelwright.judge.settings import DOMAIN_SECONDS, HIDDEN_PER_EVALUATION, ProgressCallback, Settings
from kernelwright.judge.timing.measure import Measurement, Rejected, Rejection
from kernelwright.judge.verdict import (
    NO_SAFETY,
    DomainCheck,
    DomainFailure,
    ErrorReport,
    JudgeEvidence,
    Outcome,
    PrecisionEvidence,
    ProcessEvidence,
    Profile,
    Reason,
    Stage,
    Verdict,
    WorkloadResult,
)
from kernelwright.judge.workshop import InspectionPlan, Job, SanitizerTimeoutError, Workshop

CHECKED = "checked "  # how the steps of a domain check begin, where they are named


@dataclass(frozen=True)
class EvaluationStep:
    """A runner of its own, on one workload, to look for faults of memory, for a result that is torch's alone, for wrong
    results and the time, for wrong results alone, or for what costs the time."""

    purpose: Literal["sanitized", "library", "timed", "checked", "profiled"]
    spec: WorkloadSpec

    @property
    def name(self) -> str:
        return f"{self.purpose} {self.spec.workload.label}"


@dataclass
class Evaluation:
    workshop: Workshop
    settings: Settings
    task: OpenTask
    candidate: Candidate
    subkey: bytes
    begin: float = field(default_factory=time.perf_counter)
    hidden: tuple[WorkloadSpec, ...] = ()
    inspection_plan: InspectionPlan = field(default_factory=lambda: InspectionPlan(NO_SAFETY))
    results: list[WorkloadResult] = field(default_factory=list)
    spent: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    build_seconds: float | None = None
    artefact: str | None = None
    library: tuple[str, ...] = ()
    public_library: tuple[str, ...] = ()
    arena: str = "none"
    failed_on: str | None = None
    failing_draw: FailingDraw | None = None
    check_key: bytes = field(default_factory=lambda: secrets.token_bytes(KEY_BYTES))
    checks: DomainChecks | None = None
    domain: DomainCheck | None = None
    errors: tuple[ErrorReport, ...] = ()
    public_errors: tuple[ErrorReport, ...] = ()
    left_out: dict[str, str] = field(default_factory=dict)  # baselines that cannot do this task, and why
    memory_ended: bool = False  # the machine's, whatever used it up

    def run(self, progress: ProgressCallback) -> Verdict:
        self.workshop.oracle.judging(errors=self.settings.checks_domain)
        self.workshop.build_ahead(self.candidate, (self.task.public,))
        self.workshop.baselines.prepare(self.settings.baselines)
        self.hidden = () if self.settings.public_only else self._hidden()
        self.workshop.baselines.enter(self.task)
        self.workshop.oracle.reserve(self.task, (*self.task.public, *self.hidden), len(self.settings.baselines))
        if self.settings.safety and self.workshop.safety is not None:
            self.inspection_plan = self._inspection_plan()
        if not self.settings.checks_domain:  # else the oracle has to choose points first
            self.workshop.build_ahead(self.candidate, (self._unseen(),))
        job = self.workshop.job(self.candidate, self.task)
        try:
            return self._stages(job, progress)
        finally:
            with self._timed("end"):
                job.close()
                if self.checks is not None:  # what was drawn ahead goes, also where the candidate did not get so far
                    self.workshop.oracle.leave()

    def build_ahead(self) -> None:
        """What this evaluation will build, as far as that is known while others are judged: all of a quick judging,
        and the public workloads of one with checks, which draws the others when it begins."""
        groups = [self.task.public]
        if not (self.settings.safety or self.settings.checks_domain or self.settings.public_only):
            self.hidden = self.workshop.oracle.foreseen(self.task, self._whose_hidden, HIDDEN_PER_EVALUATION)
            groups.append(self._unseen())
        self.workshop.build_ahead(self.candidate, tuple(groups))

    def _stages(self, job: Job, progress: ProgressCallback) -> Verdict:
        progress("building")
        if self.settings.checks_domain:
            self._choose_checks()
        for public in (True, False):
            part = self.task.public if public else self._unseen()
            with self._timed("build"):
                rejection = job.build(part, inspected=bool(self.inspection_plan.specs))
            self.build_seconds, self.artefact, self.library = job.build_seconds, job.artefact, job.library
            if public:
                self.public_library = job.library
            if rejection is not None:
                return self._verdict(Outcome.rejected, rejection, hidden=not public)
        if self.library:
            self._admit_library()
        replaying = self.settings.replaying
        if replaying is not None and (replaying.failed_on or "").startswith(CHECKED):
            failed = self._check_domain(job, progress)
            if failed is not None:
                return failed
        timed_out: dict[EvaluationStep, SanitizerTimeoutError] = {}
        specs = (*self.task.public, *self.hidden)
        for step in self.steps(specs, tuple(one for one in specs if job.uses_library(one))):
            if timed_out and step.purpose == "sanitized":  # it would take as long
                timed_out[step] = next(iter(timed_out.values()))
                continue
            try:
                rejection = self._take(step, job, progress)
            except SanitizerTimeoutError as error:
                timed_out[step] = error
                continue
            if rejection is not None:
                return self._verdict(Outcome.rejected, rejection, hidden=step.spec.workload.hidden)
        late = self._repeat_timed_out(timed_out, job, progress)
        return late or self._check_domain(job, progress) or self._accepted(job, progress)

    def _admit_library(self) -> None:
        """Torch beside the candidate is one more process that computes the task, and that is isolated."""
        levels.demand(self.settings.isolation, self.workshop.isolation(library=True))
        specs, baselines = (*self.task.public, *self.hidden), len(self.settings.baselines)
        self.workshop.oracle.reserve(self.task, specs, baselines + 1)

    def _repeat_timed_out(
        self, timed_out: dict[EvaluationStep, SanitizerTimeoutError], job: Job, progress: ProgressCallback
    ) -> Verdict | None:
        """Sanitizers that were late look again, where the time that a call takes without them, now known, allows more
        patience. A call that never ends has been rejected by now."""
        for step, error in timed_out.items():
            try:
                rejection = self._look_again(step, error, job, progress)
            except SanitizerTimeoutError as last:
                message = JudgeEvidence(message=str(last))
                return self._verdict(Outcome.undecided, Rejection(Stage.safety, Reason.judge_failed, message))
            if rejection is not None:
                return self._verdict(Outcome.rejected, rejection, hidden=step.spec.workload.hidden)
        return None

    def _look_again(
        self, step: EvaluationStep, error: SanitizerTimeoutError, job: Job, progress: ProgressCallback
    ) -> Rejection | None:
        """With more patience where the call deserves it, and else without the tool that did not finish."""
        try:
            if self._sanitizer_deadline(step.spec) <= error.deadline:
                raise error
            return self._take(step, job, progress)
        except SanitizerTimeoutError as last:
            if not job.do_without(last.tools):
                raise
            self.inspection_plan = self.inspection_plan.without(last.tools)
            return self._take(step, job, progress)

    def _choose_checks(self) -> None:
        """Lets the oracle choose the points while public workloads are built."""
        replaying = self.settings.replaying
        if replaying is not None and replaying.checks is not None:
            self.check_key = replaying.checks
        self.workshop.oracle.choose_checks(self.task, self.check_key)

    def _chosen_checks(self) -> DomainChecks:
        oracle = self.workshop.oracle
        with self._timed("domain: points"):
            checks = oracle.checks(self.task, self.check_key)
            planned = [(one.spec.workload, one.calls) for one in plan_calls(checks, self.check_key)]
            oracle.expect(self.task, self.check_key.hex(), planned)
            return checks

    def _check_domain(self, job: Job, progress: ProgressCallback) -> Verdict | None:
        """Untimed, after all that is timed: what it finds is held against the candidate, and it changes no time."""
        if self.checks is None or self.domain is not None:
            return None
        shop, again = self.workshop, None
        replaying = self.settings.replaying
        if replaying is not None and replaying.failed_on and replaying.failed_on.startswith(CHECKED):
            again = replaying.failed_on.removeprefix(CHECKED), replaying.failing_draw
        limit = DOMAIN_SECONDS[self.settings.device.kind]
        deadline = partial(call_deadline, self.results)
        keeps_state = self.settings.device.kind == "cpu"
        run = DomainRun(shop.oracle, self.task, self.checks, self.check_key, limit, deadline, self._timed, keeps_state)
        with self._timed("domain"), points_left(shop.oracle):
            with shop.working():
                found = run.run(job, partial(_prefixed, progress, "checking sizes and special values"), again)
            if isinstance(found, DomainCheck):
                self.domain = found
                return None
            rejection = self._reject(EvaluationStep("checked", found.planned.spec), found.rejection)
        return self._verdict(Outcome.rejected, rejection, hidden=True, domain_failure=found.on)

    def _accepted(self, job: Job, progress: ProgressCallback) -> Verdict:
        with self._timed("errors"):
            self.errors, self.public_errors = self.workshop.oracle.errors()
        found = next((one for one in (*self.public_errors, *self.errors) if one.imprecise), None)
        if found is not None:
            rejection = Rejection(Stage.compare, Reason.imprecise, PrecisionEvidence(report=found))
            return self._verdict(Outcome.rejected, rejection, hidden=found not in self.public_errors)
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

    def steps(
        self, specs: tuple[WorkloadSpec, ...], with_library: tuple[WorkloadSpec, ...] = ()
    ) -> list[EvaluationStep]:
        """Sanitizers first. A replay begins where the candidate failed, since values are others in the rest of it."""
        steps = [EvaluationStep("sanitized", one) for one in self.inspection_plan.specs]
        steps += [EvaluationStep("library", one) for one in with_library]
        steps += [EvaluationStep("timed", one) for one in specs]
        replaying = self.settings.replaying
        return sorted(steps, key=lambda step: replaying is None or step.name != replaying.failed_on)

    def _inspection_plan(self) -> InspectionPlan:
        theirs = len(self.settings.replaying.hidden) if self.settings.replaying is not None else 0
        # Of a stranger's certificate both: the smallest that the signer chose, and the smallest of this judge's own.
        parts = (self.task.public, self.hidden[:theirs], self.hidden[theirs:])
        usual = tuple(min(part, key=_elements) for part in parts if part)
        lighter: tuple[WorkloadSpec, ...] | None = None
        if self.settings.replaying is not None:
            lighter = self.workshop.oracle.specs(self.task, self.settings.replaying.lighter)
        elif self.settings.public_only:
            lighter = ()
        return self.workshop.inspection_plan(self.task, usual, lighter)

    def _unseen(self) -> tuple[WorkloadSpec, ...]:
        """In an order from which a plan cannot tell which of them are timed, and which are points of the domain."""
        if self.settings.checks_domain:
            self.checks = self._chosen_checks()
        points = self.checks.points if self.checks else ()
        unseen = [*self.hidden, *self.inspection_plan.lighter, *(point.spec for point in points)]
        random.Random(seed(self.subkey, "unseen", "order")).shuffle(unseen)
        return tuple(unseen)

    def _sanitizer_deadline(self, spec: WorkloadSpec) -> float:
        workload = spec.workload
        known = (one.seconds for one in self.results if (one.label, one.hidden) == (workload.label, workload.hidden))
        return self.workshop.deadline.for_call_of(next(known, None))

    def _take(self, step: EvaluationStep, job: Job, progress: ProgressCallback) -> Rejection | None:
        if step.purpose == "sanitized":
            progress("running the sanitizers")
            with self._timed("safety"):
                return self._inspect(step, job)
        if step.purpose == "library":
            progress("leaving out its kernels")
            with self._timed("library"):
                return self._look_for_library_alone(step, job)
        workload, timed = step.spec.workload, (*self.task.public, *self.hidden)
        name = (
            f"workload {timed.index(step.spec) + 1} of {len(timed)}, {'hidden' if workload.hidden else workload.label}"
        )
        return self._measure(step, job, partial(_prefixed, progress, name))

    def undecided(self, why: str) -> Verdict:
        return self._verdict(Outcome.undecided, Rejection(Stage.run, Reason.judge_failed, JudgeEvidence(message=why)))

    def _verdict(
        self,
        outcome: Outcome,
        rejection: Rejection | None = None,
        *,
        hidden: bool = False,
        domain_failure: DomainFailure | None = None,
    ) -> Verdict:
        return Verdict(
            candidate=self.candidate.id,
            name=self.candidate.name,
            task=self.task.name,
            contract=self.candidate.contract,
            verdict=outcome,
            stage=rejection.stage if rejection else Stage.complete,
            reason=rejection.reason if rejection else Reason.right,
            evidence=rejection.evidence if rejection else None,
            failed_on_hidden=hidden,
            workloads=tuple(self.results),
            domain=self.domain,
            domain_failure=domain_failure,
            errors=self.errors,
            public_errors=self.public_errors,
            library=self.library,
            public_library=self.public_library,
            conditions=self.workshop.conditions(
                self.arena, self.inspection_plan.name, self.candidate.contract, library=bool(self.library)
            ),
            build_seconds=self.build_seconds,
            artefact=self.artefact,
            seconds=time.perf_counter() - self.begin,
            stage_seconds=dict(self.spent),
            baselines_left_out=tuple(f"{name}: {why}" for name, why in self.left_out.items()),
        )

    def _hidden(self) -> tuple[WorkloadSpec, ...]:
        replaying, oracle, whose = self.settings.replaying, self.workshop.oracle, self._whose_hidden
        if replaying is None:
            return oracle.hidden(self.task, whose, HIDDEN_PER_EVALUATION)
        theirs = oracle.specs(self.task, replaying.hidden)
        own = oracle.hidden(self.task, whose, replaying.own_hidden) if replaying.own_hidden else ()
        return (*theirs, *(one for one in own if one not in theirs))

    @property
    def _whose_hidden(self) -> str:
        return self.settings.hidden_of or fingerprint(self.candidate)

    def report_use(self, verdict: Verdict) -> None:
        """Tells the oracle how the hidden workloads fared, so that it retires those that may have become known."""
        if self.hidden and self.settings.replaying is None:
            failed = verdict.failed_on_hidden and verdict.stage is not Stage.domain  # its points are used once anyway
            failed = failed or verdict.verdict is Outcome.undecided
            with suppress(OracleLost):  # the oracle knows then that a judging did not come to its end
                self.workshop.oracle.used(self.task, self._whose_hidden, failed=failed)

    def _begin(self, step: EvaluationStep) -> None:
        """A new runner gets values that cannot be foreseen; a replay begins with those on which it failed."""
        replaying = self.settings.replaying
        failed_here = replaying is not None and replaying.failed_on == step.name
        first = (
            (replaying.failing_draw,)
            if replaying is not None and failed_here and replaying.failing_draw is not None
            else ()
        )
        key = derive(self.subkey, step.purpose).hex()
        self.workshop.oracle.begin(self.task, step.spec.workload, key, first)

    def _reject(self, step: EvaluationStep, rejection: Rejection) -> Rejection:
        self.failing_draw = self.workshop.oracle.forget()
        self.failed_on = step.name
        if isinstance(rejection.evidence, ProcessEvidence):
            self.workshop.recover()
        return rejection

    def _inspect(self, step: EvaluationStep, job: Job) -> Rejection | None:
        self.arena, descriptors = self.workshop.oracle.arena(self.task, step.spec.workload)
        try:
            self._begin(step)
            quick = step.spec in self.inspection_plan.heavy
            rejection = job.inspect(step.spec, descriptors, quick=quick, deadline=self._sanitizer_deadline(step.spec))
            return None if rejection is None else self._reject(step, rejection)
        finally:
            close_descriptors(descriptors)

    def _look_for_library_alone(self, step: EvaluationStep, job: Job) -> Rejection | None:
        self.arena, descriptors = self.workshop.oracle.arena(self.task, step.spec.workload)
        try:
            self._begin(step)
            rejection = job.library_alone(step.spec, descriptors, call_deadline((), 1.0))
            return None if rejection is None else self._reject(step, rejection)
        finally:
            close_descriptors(descriptors)

    def _measure(self, step: EvaluationStep, job: Job, progress: ProgressCallback) -> Rejection | None:
        shop, spec, names = self.workshop, step.spec, self.settings.baselines
        with self._timed("arena"):
            self.arena, descriptors = shop.oracle.arena(self.task, spec.workload)
        try:
            with self._timed("baselines"), shop.working():
                expected = shop.baselines.open(names, shop.oracle, self.task, spec, descriptors, progress)
                self._note_left_out(names, spec)
            with self._timed("clock"):
                clock = shop.clock()
            with self._timed("start"):
                self._begin(step)
                runner = job.start(spec, descriptors)
        finally:
            close_descriptors(descriptors)
        with runner:
            order = random.Random(seed(self.subkey, "turns", spec.workload.label))
            baselines = shop.baselines.processes(tuple(expected))
            measurement = Measurement(shop.oracle, spec, runner, baselines, expected, clock, order)
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
                    rejection = rejected.rejection
        self.results.append(_unmeasured(spec))
        return self._reject(step, rejection)

    def _note_left_out(self, names: tuple[str, ...], spec: WorkloadSpec) -> None:
        """Why a baseline cannot do a hidden workload may tell its sizes."""
        for name, why in self.workshop.baselines.left_out(names, self.task, spec).items():
            self.left_out.setdefault(name, "it cannot do a hidden workload" if spec.workload.hidden else why)

    def _profile(self, job: Job, progress: ProgressCallback) -> None:
        """Of the first public workload. It is accepted by now, and nothing that happens here changes that."""
        step = EvaluationStep("profiled", self.task.public[0])
        progress("profiling")
        with self._timed("profile"):
            try:
                profile = self._profiled(step, job)
            except (KernelwrightError, OSError) as error:
                profile = Profile(missing=str(error))
        workload = step.spec.workload
        self.results = [
            result.model_copy(update={"profile": profile})
            if (result.label, result.hidden) == (workload.label, workload.hidden)
            else result
            for result in self.results
        ]

    def _profiled(self, step: EvaluationStep, job: Job) -> Profile:
        known = job.known_profile(step.spec)
        if known is not None:
            return known
        _, descriptors = self.workshop.oracle.arena(self.task, step.spec.workload)
        try:
            self._begin(step)
            return job.profile(step.spec, descriptors)
        finally:
            close_descriptors(descriptors)

    def _trials(self, measurement: Measurement, progress: ProgressCallback) -> WorkloadResult:
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
        return result.model_copy(update={"deterministic": deterministic, "prepare_seconds": prepare})


def _prefixed(progress: ProgressCallback, prefix: str, text: str) -> None:
    progress(f"{prefix}: {text}")


def _elements(spec: WorkloadSpec) -> int:
    return sum(math.prod(tensor.shape) for tensor in spec.signature.tensors)


def _unmeasured(spec: WorkloadSpec) -> WorkloadResult:
    workload = spec.workload
    return WorkloadResult(label=workload.label, sizes=workload.size_map, dtype=workload.dtype, hidden=workload.hidden)
