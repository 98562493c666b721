"""Takes one GPU candidate through the emulator: builds for the host, and calls that the oracle compares.

The arena, the sandbox, the oracle and the sanitizers are those of the judge's own path for the CPU. Only the clock is
not: what an emulated kernel takes says nothing about a GPU.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from enum import StrEnum
from types import TracebackType
from typing import Literal

from kernelwright.contracts import Candidate
from kernelwright.contracts.host_build import Built, build_as
from kernelwright.contracts.model import BuildFailure, BuildPlan, InterpretedPlan, NotEmulatedError
from kernelwright.contracts.registry import contract_named, fingerprint
from kernelwright.contracts.target import HOPPER, Target
from kernelwright.devices import lock
from kernelwright.isolation import levels
from kernelwright.isolation.levels import Level
from kernelwright.isolation.start import protect_this_process
from kernelwright.isolation.warden import WardedProcess
from kernelwright.judge.cpu.runner import start_runner
from kernelwright.judge.cpu.safety import SourceFiles, inspect, sanitizers_available
from kernelwright.judge.emulate.interpreter import Interpreter
from kernelwright.judge.keys import candidate_key, derive, judge_key
from kernelwright.judge.oracle_client import OpenTask, OracleClient, WorkloadSpec, close_descriptors
from kernelwright.judge.settings import ProgressCallback, ignore_progress
from kernelwright.judge.timing.measure import Rejection
from kernelwright.judge.verdict import (
    BuildEvidence,
    Evidence,
    ProcessEvidence,
    Reason,
    SanitizerEvidence,
    Stage,
    VerdictPart,
)
from kernelwright.tasks.loading import digest

# What a check on the emulator says. It has no field for a time or a speed, and it is not a verdict.

SCHEMA_VERSION = 1


class CheckOutcome(StrEnum):
    """`unchecked`: the emulator does not have what the candidate needs, or did not come to an end."""

    right = "right"
    faulty = "faulty"
    unchecked = "unchecked"


class CheckedWorkload(VerdictPart):
    label: str
    sizes: dict[str, int]
    dtype: str
    trials: int
    public: bool


class CheckResult(VerdictPart):
    candidate: str
    name: str
    task: str
    contract: str
    checked_on: Literal["emulator"] = "emulator"
    outcome: CheckOutcome
    stage: Stage = Stage.complete
    reason: Reason | None = None
    evidence: Evidence | None = None
    message: str = ""  # why it is unchecked
    workloads: tuple[CheckedWorkload, ...] = ()
    too_large: tuple[str, ...] = ()  # public workloads that were left out
    target: str
    library: tuple[str, ...] = ()  # operators that torch carried out for the candidate
    sandbox: str
    sanitizers: str


class CheckReport(VerdictPart):
    """What `kernelwright check --json` prints."""

    schema_version: int = SCHEMA_VERSION
    command: Literal["check"] = "check"
    task: str
    results: tuple[CheckResult, ...]


TRIALS = 3  # threads take their turns upwards, downwards, and at random; see include/kw_schedule.h
SMALL = 3
MOST_ELEMENTS = 3 << 20
NAMED_SIZES = (96, 48, 24, 12, 6)  # at most, for each size in a task that is too large
NAMED_ELEMENTS = 1 << 18
PATIENCE = 100.0  # seconds of one call
SAYS = "emulator: "


@dataclass
class Checker:
    """Checks candidates one after another; the oracle stays up in between."""

    target: Target = HOPPER
    most_elements: int = MOST_ELEMENTS
    small: int = SMALL
    isolation: Level = field(default_factory=levels.accepted)  # the lowest that is accepted
    _tasks: dict[str, OpenTask] = field(default_factory=dict)

    def __post_init__(self) -> None:
        protect_this_process()
        levels.demand(self.isolation)
        self._key = judge_key()
        self._oracle = OracleClient(self._key, 1)

    def __enter__(self) -> Checker:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self._oracle.close()

    def open(self, task: str) -> OpenTask:
        if task not in self._tasks:
            self._tasks[task] = self._oracle.open(task)
        return self._tasks[task]

    def check(self, task: str, candidate: Candidate, progress: ProgressCallback = ignore_progress) -> CheckResult:
        opened = self.open(task)
        subkey = candidate_key(self._key, digest(opened.sources), task, fingerprint(candidate))
        checking = _CheckRun(self._oracle, opened, candidate, self.target, subkey, self.most_elements, self.small)
        return checking.run(progress)


@dataclass
class _CheckRun:
    oracle: OracleClient
    task: OpenTask
    candidate: Candidate
    target: Target
    subkey: bytes
    most_elements: int
    small: int
    done: list[CheckedWorkload] = field(default_factory=list)
    too_large: tuple[str, ...] = ()
    sanitizers: str = ""  # where it is not what the machine has
    library: tuple[str, ...] = ()

    def run(self, progress: ProgressCallback) -> CheckResult:
        try:
            rejection = self._all(progress)
        except NotEmulatedError as error:
            return self._said(CheckOutcome.unchecked, message=str(error))
        if rejection is None:
            return self._said(CheckOutcome.right, reason=Reason.right)
        if rejection.reason is Reason.timed_out:
            message = "a call did not end in time on the emulator: threads wait for each other, or it is too much work"
            return self._said(CheckOutcome.unchecked, rejection, message=message)
        return self._said(CheckOutcome.faulty, rejection)

    def _all(self, progress: ProgressCallback) -> Rejection | None:
        emulation = contract_named(self.candidate.contract).emulation(self.candidate)
        if emulation is None:
            raise NotEmulatedError(f"the emulator does not take {self.candidate.contract} candidates")
        spec = self._workloads()
        progress("translating for the emulator")
        signatures = tuple(one.signature for one in spec)
        plans = emulation.builds(signatures, self.target, sanitized=sanitizers_available())
        for one, plan in zip(spec, plans, strict=False):  # a plan that fails is the last one
            progress(f"building for {one.workload.label}")
            built = build_as(plan) if isinstance(plan, BuildPlan) else plan
            if isinstance(built, BuildFailure):
                reason = Reason.build_took_too_long if built.timed_out else Reason.does_not_build
                return Rejection(
                    Stage.build, reason, BuildEvidence(lines=(*emulation.advice(built.lines), *built.lines))
                )
            progress(f"checking {one.workload.label}")
            rejection = self._calls(built, one) or self._without_kernels(built, one)
            if rejection is not None:
                return rejection
            self.done.append(self._checked(one))
        return None

    def _without_kernels(self, built: Built | InterpretedPlan, spec: WorkloadSpec) -> Rejection | None:
        """Where torch computes part of it: whether the result is right, once, without the candidate's own kernels."""
        if not isinstance(built, InterpretedPlan):
            return None
        self.library = tuple(dict.fromkeys((*self.library, *built.library)))
        if not built.without_kernels or self.done:
            return None
        if self._calls(replace(built, command=built.without_kernels), spec) is not None:
            return None
        line = f"with its kernels left out the result is the same: torch computes it ({', '.join(self.library)})"
        return Rejection(Stage.compare, Reason.library_alone, BuildEvidence(lines=(line,)))

    def _workloads(self) -> tuple[WorkloadSpec, ...]:
        """Small awkward ones first, then the public ones that an emulator can do."""
        spec = dict.fromkeys((*self.oracle.small(self.task, self.small), *sorted(self.task.public, key=_elements)))
        fit = tuple(one for one in spec if _elements(one) <= self.most_elements)
        self.too_large = tuple(one.workload.label for one in spec if one not in fit)
        if not fit:
            raise NotEmulatedError(
                f"{self.task.name}: every workload is too large for the emulator: name smaller sizes, "
                f"{self._with_sizes()}"
            )
        return fit

    def _with_sizes(self) -> str:
        """The task as it would be given at sizes that the emulator can do."""
        sizes = min(self.task.public, key=_elements).workload.size_map
        smaller = ({name: min(size, most) for name, size in sizes.items()} for most in NAMED_SIZES)
        fitting = next((one for one in smaller if math.prod(one.values()) <= NAMED_ELEMENTS), {})
        return f"TASK@{','.join(f'{name}={size}' for name, size in fitting.items())}" if fitting else "if it has any"

    def _checked(self, spec: WorkloadSpec) -> CheckedWorkload:
        workload, public = spec.workload, spec in self.task.public
        return CheckedWorkload(
            label=workload.label, sizes=workload.size_map, dtype=workload.dtype, trials=TRIALS, public=public
        )

    def _calls(self, built: Built | InterpretedPlan, spec: WorkloadSpec) -> Rejection | None:
        _, descriptors = self.oracle.arena(self.task, spec.workload)
        try:
            self.oracle.begin(self.task, spec.workload, derive(self.subkey, "emulated", spec.workload.label).hex())
            authored = contract_named(self.candidate.contract).file_names(self.candidate.source)
            files = SourceFiles(authored, () if isinstance(built, InterpretedPlan) else built.files)
            with self._started(built, spec, descriptors) as runner, lock.working():
                rejection = inspect(
                    runner, spec, self.oracle, files=files, prepare=False, calls=TRIALS, deadline=PATIENCE
                )
        finally:
            close_descriptors(descriptors)
        if rejection is None:
            return None
        self.oracle.forget()
        return _as_said(rejection)

    def _started(
        self, built: Built | InterpretedPlan, spec: WorkloadSpec, descriptors: list[int]
    ) -> Interpreter | WardedProcess:
        if isinstance(built, InterpretedPlan):
            self.sanitizers = "none: interpreted"
            return Interpreter(built, spec.signature, descriptors)
        sanitized = sanitizers_available()
        return start_runner(built.library, spec.signature, descriptors, 1, (), sanitized=sanitized)

    def _said(
        self,
        outcome: CheckOutcome,
        rejection: Rejection | None = None,
        *,
        reason: Reason | None = None,
        message: str = "",
    ) -> CheckResult:
        return CheckResult(
            candidate=self.candidate.id,
            name=self.candidate.name,
            contract=self.candidate.contract,
            task=self.task.name,
            outcome=outcome,
            stage=rejection.stage if rejection else Stage.complete,
            reason=rejection.reason if rejection else reason,
            evidence=rejection.evidence if rejection else None,
            message=message,
            workloads=tuple(self.done),
            too_large=self.too_large,
            target=f"{self.target.architecture}, {self.target.multiprocessors} multiprocessors",
            library=self.library,
            sandbox=levels.capabilities().level,
            sanitizers=self.sanitizers or ("asan+ubsan" if sanitizers_available() else "none"),
        )


def _as_said(rejection: Rejection) -> Rejection:
    """A fault that the emulator itself found and named."""
    evidence = rejection.evidence
    if isinstance(evidence, ProcessEvidence):
        lines = tuple(line.removeprefix(SAYS) for line in evidence.output if line.startswith(SAYS))
        if lines:
            return Rejection(Stage.safety, Reason.unsafe, SanitizerEvidence(workload=evidence.workload, lines=lines))
    return rejection


def _elements(spec: WorkloadSpec) -> int:
    return sum(math.prod(tensor.shape) for tensor in spec.signature.tensors)
