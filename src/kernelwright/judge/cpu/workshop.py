"""Judging on a CPU: host code built with the system's compiler, run in confined processes, timed by the warden."""

from __future__ import annotations

import secrets
import zlib
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial

from kernelwright.contracts import Candidate
from kernelwright.contracts.host_build import Built, build_both
from kernelwright.contracts.model import BuildFailure
from kernelwright.contracts.registry import host_contract
from kernelwright.devices import lock
from kernelwright.devices.compiler import compiler_version
from kernelwright.devices.cpu import probe
from kernelwright.isolation.levels import Isolation, weakest
from kernelwright.isolation.roles import Role
from kernelwright.isolation.start import isolation_of
from kernelwright.isolation.warden import WardedProcess
from kernelwright.judge.baselines import Baselines, CpuBaselineProcess
from kernelwright.judge.cpu.overhead import Overheads
from kernelwright.judge.cpu.runner import start_runner
from kernelwright.judge.cpu.safety import SourceFiles, inspect, sanitizers_available
from kernelwright.judge.oracle_client import OpenTask, OracleClient, WorkloadSpec, close_descriptors
from kernelwright.judge.timing.measure import Clock, Rejection, build_rejection
from kernelwright.judge.verdict import NO_SAFETY, Conditions, Profile, Reason, WorkloadResult
from kernelwright.judge.workshop import InspectionPlan, OtherWorkload, SanitizerDeadline, SanitizerTimeoutError
from kernelwright.version import __version__

# Sanitized code takes several times as long; loops that were vectorised take many times.
SANITIZER_DEADLINE = SanitizerDeadline(least=10.0, slowdown=100.0, most=300.0)
OTHER_THREADS = (1, 3, 33)  # with which check points are called, beside the number that is timed
NO_PROFILE = Profile(missing="kernels are profiled on GPUs alone")


class CpuWorkshop:
    def __init__(self, key: bytes, threads: int) -> None:
        self.threads = threads or len(probe().cores)
        self.cpus = probe().cores[: self.threads]  # no core more than there are threads
        self.oracle = OracleClient(key, self.threads)
        self.baselines = Baselines(partial(CpuBaselineProcess, threads=self.threads, cpus=self.cpus))
        self._overheads: Overheads | None = None

    @property
    def safety(self) -> str | None:
        return "asan+ubsan" if sanitizers_available() else None

    def inspection_plan(
        self, task: OpenTask, usual: tuple[WorkloadSpec, ...], lighter: tuple[WorkloadSpec, ...] | None
    ) -> InspectionPlan:
        return InspectionPlan(self.safety or NO_SAFETY, usual)

    @property
    def deadline(self) -> SanitizerDeadline:
        return SANITIZER_DEADLINE

    def job(self, candidate: Candidate, task: OpenTask) -> CpuJob:
        return CpuJob(self, candidate, task)

    def may_build_ahead(self, candidate: Candidate) -> bool:
        """Never: a build beside a measurement would share its cores."""
        return False

    def build_ahead(self, candidate: Candidate, groups: tuple[tuple[WorkloadSpec, ...], ...]) -> None:
        """Nothing."""

    def clock(self) -> Clock:
        if self._overheads is None:
            self._overheads = Overheads(self.threads, self.cpus)
        return Clock("cpu", self._overheads)

    def working(self) -> AbstractContextManager[None]:
        return lock.working()

    def measuring(self) -> AbstractContextManager[None]:
        return lock.measuring()

    def recover(self) -> None:
        """Whatever a candidate did ended with its process."""

    def isolation(self, *, library: bool = False) -> tuple[Isolation, ...]:
        return isolation_of(Role.builder, Role.runner, Role.sanitized_runner)

    def demand_memory(self, *, refuse_pageable: bool) -> None:
        """A kernel on a CPU is a process of its own, and its memory is what is confined."""

    def conditions(self, arena: str, safety: str, contract: str, *, library: bool = False) -> Conditions:
        """One compiler builds every contract for the CPU."""
        return Conditions(
            sandbox=weakest(one.level for one in self.isolation()),
            arena=arena,
            safety=safety,
            device=f"cpu: {probe().model}",
            threads=self.threads,
            judge_version=__version__,
            compiler=compiler_version(),
        )

    def close(self) -> None:
        if self._overheads is not None:
            self._overheads.close()
        self.baselines.close()
        self.oracle.close()


@dataclass
class CpuJob:
    """A runner of its own for every workload."""

    shop: CpuWorkshop
    candidate: Candidate
    task: OpenTask
    _plain: dict[tuple[str, ...], Built] = field(default_factory=dict)
    _sanitized: dict[tuple[str, ...], Built] = field(default_factory=dict)
    _inspected: str = field(default_factory=lambda: secrets.token_hex(8))

    @property
    def _first(self) -> Built | None:
        return next(iter(self._plain.values()), None)

    @property
    def build_seconds(self) -> float | None:
        return self._first.seconds if self._first else None

    @property
    def artefact(self) -> str | None:
        return self._first.code if self._first else None

    def build(self, specs: tuple[WorkloadSpec, ...], *, inspected: bool) -> Rejection | None:
        for one in specs:
            key = _types(one)
            if key in self._plain:
                continue
            plain, sanitized = build_both(self.candidate, one.signature, sanitized=inspected)
            for result in (plain, sanitized):
                if isinstance(result, BuildFailure):
                    return build_rejection(result.lines, timed_out=result.timed_out)
            assert isinstance(plain, Built)
            self._plain[key] = plain
            if isinstance(sanitized, Built):
                self._sanitized[key] = sanitized
        return None

    def inspect(self, spec: WorkloadSpec, descriptors: list[int], *, quick: bool, deadline: float) -> Rejection | None:
        built = self._sanitized[_types(spec)]
        authored = host_contract(self.candidate.contract).file_names(self.candidate.source)
        files = SourceFiles(authored, built.files)
        prepare = bool(self.task.constant)
        other = self._other_public(spec)
        try:
            with (
                self._run(built, spec, descriptors, sanitized=True, other=other) as runner,
                self.shop.working(),
            ):
                then = partial(self._begin_other, other.spec) if other is not None else None
                rejection = inspect(
                    runner, spec, self.shop.oracle, files=files, prepare=prepare, deadline=deadline, then=then
                )
        finally:
            close_descriptors(other.descriptors if other is not None else [])
        if rejection is not None and rejection.reason is Reason.timed_out:
            raise SanitizerTimeoutError((self.shop.safety or NO_SAFETY,), spec, deadline)
        return rejection

    def _other_public(self, spec: WorkloadSpec) -> OtherWorkload | None:
        """The public workload with most sizes above those of this one: scratch memory of the first call is too small
        for it. Not where a candidate prepares for constants."""
        if self.task.constant:
            return None
        here = spec.workload.size_map

        def above(one: WorkloadSpec) -> int:
            return sum(size > here[name] for name, size in one.workload.sizes)

        found = max((one for one in self.task.public if _types(one) == _types(spec)), key=above, default=None)
        if found is None or not above(found):
            return None
        _, descriptors = self.shop.oracle.arena(self.task, found.workload)
        return OtherWorkload(found, descriptors)

    def _begin_other(self, spec: WorkloadSpec) -> None:
        """What the runner saw so far is not drawn again, as if it had been rejected: should it be, it is too late."""
        self.shop.oracle.forget()
        self.shop.oracle.begin(self.task, spec.workload, self._inspected)

    def do_without(self, tools: tuple[str, ...]) -> bool:
        return False

    @property
    def library(self) -> tuple[str, ...]:
        """A host contract has no such steps."""
        return ()

    def uses_library(self, spec: WorkloadSpec) -> bool:
        return False

    def library_alone(self, spec: WorkloadSpec, descriptors: list[int], deadline: float) -> Rejection | None:
        return None

    def start(self, spec: WorkloadSpec, descriptors: list[int]) -> WardedProcess:
        return self._run(self._plain[_types(spec)], spec, descriptors)

    def check(self, spec: WorkloadSpec, descriptors: list[int], other: OtherWorkload | None = None) -> WardedProcess:
        """With other numbers of threads than are timed: what is certified must hold on other machines' cores."""
        which = zlib.crc32(spec.workload.label.encode()) % (len(OTHER_THREADS) + 1)
        threads = (self.shop.threads, *OTHER_THREADS)[which]
        return self._run(self._plain[_types(spec)], spec, descriptors, threads=threads, other=other)

    def _run(
        self,
        built: Built,
        spec: WorkloadSpec,
        descriptors: list[int],
        *,
        sanitized: bool = False,
        threads: int = 0,
        other: OtherWorkload | None = None,
    ) -> WardedProcess:
        threads, cpus = threads or self.shop.threads, self.shop.cpus
        others = [(other.spec.signature, other.descriptors)] if other is not None else []
        return start_runner(
            built.library, spec.signature, descriptors, threads, cpus, sanitized=sanitized, others=others
        )

    def finish(self, result: WorkloadResult) -> WorkloadResult:
        return result

    def known_profile(self, _: WorkloadSpec) -> Profile | None:
        return NO_PROFILE

    def profile(self, spec: WorkloadSpec, descriptors: list[int]) -> Profile:
        return NO_PROFILE

    def close(self) -> None:
        """Every runner has ended with its workload."""


def _types(spec: WorkloadSpec) -> tuple[str, ...]:
    """What a build depends on: dtypes and ranks, not sizes."""
    return tuple(f"{tensor.dtype}/{len(tensor.shape)}" for tensor in spec.signature.tensors)
