"""What judging needs of a device. `cpu_workshop` and `gpu.workshop` carry it out; `controller` chooses."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Protocol

from kernelwright.contracts import Candidate
from kernelwright.isolation.levels import Isolation
from kernelwright.judge.baselines import Baselines
from kernelwright.judge.oracle_client import OpenTask, OracleClient, WorkloadSpec
from kernelwright.judge.timing.measure import Clock, Rejection, Runner
from kernelwright.judge.verdict import Conditions, Profile, WorkloadResult

INSTEAD = "two fills instead"  # of memory that nothing has written: see `judge.gpu.fills`


class SanitizerTimeoutError(Exception):
    """`tools`, of the sanitizers, did not finish within `deadline` seconds, or for want of memory. The candidate is not
    at fault yet."""

    def __init__(self, tools: tuple[str, ...], spec: WorkloadSpec, deadline: float, *, memory: bool = False) -> None:
        why = "with the device's memory" if memory else f"within {deadline:.0f} s"
        super().__init__(f"{'+'.join(tools)} did not finish {why} on {spec.workload.shown}")
        self.tools, self.deadline = tools, deadline


@dataclass(frozen=True)
class SanitizerDeadline:
    """Seconds that one call may take under the sanitizers: `least` before it is known what it takes without them, then
    `slowdown` times that, up to `most`."""

    least: float
    slowdown: float
    most: float

    def for_call_of(self, seconds: float | None) -> float:
        return self.least if seconds is None else max(self.least, min(self.slowdown * seconds, self.most))


@dataclass(frozen=True)
class InspectionPlan:
    """What the sanitizers look at, in order, and what a verdict says of it (`name`).

    `heavy` workloads are looked at by the quick ones alone; `lighter` ones are built for this and never timed.
    """

    name: str
    specs: tuple[WorkloadSpec, ...] = ()
    heavy: tuple[WorkloadSpec, ...] = ()
    lighter: tuple[WorkloadSpec, ...] = ()

    def without(self, tools: tuple[str, ...]) -> InspectionPlan:
        """As a verdict says it where tools did not end, and `Job.do_without` replaced them."""
        name = self.name
        for tool in tools:
            if f"+{tool}" in name:
                name = f"{name.replace(f'+{tool}', '')}; {tool} did not end, {INSTEAD}"
        return replace(self, name=name)


@dataclass(frozen=True)
class OtherWorkload:
    """What a process that checks a workload is called on besides: a kernel may keep what its first call had."""

    spec: WorkloadSpec
    descriptors: list[int]


class Job(Protocol):
    """One candidate on a device, from its build to its last trial."""

    @property
    def build_seconds(self) -> float | None: ...

    @property
    def artefact(self) -> str | None:
        """The hash of what was built first."""

    def build(self, specs: tuple[WorkloadSpec, ...], *, inspected: bool) -> Rejection | None:
        """Builds for some workloads. A fault may quote their sizes: public and hidden ones come in calls of their own.

        `inspected`: the sanitizers will be run on them too.
        """

    @property
    def library(self) -> tuple[str, ...]:
        """The operators of torch that the programs built so far leave to torch, each once, in order."""

    def uses_library(self, spec: WorkloadSpec) -> bool:
        """Whether some step on this workload is torch's."""

    def library_alone(self, spec: WorkloadSpec, descriptors: list[int], deadline: float) -> Rejection | None:
        """Calls without the candidate's own kernels, on values that the oracle loads: right all the same, the result is
        torch's and not the candidate's. `deadline` is for each of them."""

    def inspect(self, spec: WorkloadSpec, descriptors: list[int], *, quick: bool, deadline: float) -> Rejection | None:
        """One call under the sanitizers, on values that the oracle loads. Raises `SanitizerTimeoutError`.

        `quick`: without those that take minutes on a heavy workload.
        """

    def do_without(self, tools: tuple[str, ...]) -> bool:
        """From now on `inspect` leaves these sanitizers out, and looks by means of the judge's own for what they would
        have found. Not where it has no such means."""

    def start(self, spec: WorkloadSpec, descriptors: list[int]) -> Runner:
        """A process that holds the candidate and has seen nothing of this workload yet."""

    def check(self, spec: WorkloadSpec, descriptors: list[int], other: OtherWorkload | None = None) -> Runner:
        """As `start`, for calls that are not timed. May return before it is ready. `other` comes only where a
        candidate's own code keeps state between calls."""

    def finish(self, result: WorkloadResult) -> WorkloadResult:
        """Adds what only the device knows of the trials that have just ended."""

    def known_profile(self, spec: WorkloadSpec) -> Profile | None:
        """What needs no call: it was had before, or cannot be had here."""

    def profile(self, spec: WorkloadSpec, descriptors: list[int]) -> Profile:
        """One call under the device's profiler, on values that the oracle loads. Nothing that it meets is a fault."""

    def close(self) -> None: ...


class Workshop(Protocol):
    """What stays up from one candidate to the next."""

    @property
    def oracle(self) -> OracleClient: ...

    @property
    def baselines(self) -> Baselines: ...

    @property
    def threads(self) -> int: ...

    @property
    def safety(self) -> str | None:
        """What the sanitizers are called here, or None where there are none."""

    def inspection_plan(
        self, task: OpenTask, usual: tuple[WorkloadSpec, ...], lighter: tuple[WorkloadSpec, ...] | None
    ) -> InspectionPlan:
        """What the sanitizers are to look at, which is `usual` unless it is too heavy for some of them. A lighter
        workload is then looked at besides: the one that is given, if there is a choice at all."""

    @property
    def deadline(self) -> SanitizerDeadline: ...

    def job(self, candidate: Candidate, task: OpenTask) -> Job: ...

    def may_build_ahead(self, candidate: Candidate) -> bool:
        """Whether `build_ahead` would do anything: preparing for it takes a moment."""

    def build_ahead(self, candidate: Candidate, groups: tuple[tuple[WorkloadSpec, ...], ...]) -> None:
        """Begins builds, for a later job of this candidate, where they disturb no measurement. Returns at once."""

    def clock(self) -> Clock:
        """To be asked while no lock is held: what it tells is measured once, while no candidate is loaded."""

    def working(self) -> AbstractContextManager[None]:
        """Held by work that would disturb a measurement on this device."""

    def measuring(self) -> AbstractContextManager[None]:
        """Held during a measurement on this device."""

    def recover(self) -> None:
        """Returns when the device is well again after a candidate was rejected."""

    def isolation(self, *, library: bool = False) -> tuple[Isolation, ...]:
        """What the processes that meet a candidate really get here; with `library`, one with library steps."""

    def demand_memory(self, *, refuse_pageable: bool) -> None:
        """Refuses a device whose kernels reach the host memory of their own process, where that is not wanted."""

    def conditions(self, arena: str, safety: str, contract: str, *, library: bool = False) -> Conditions: ...

    def close(self) -> None: ...
