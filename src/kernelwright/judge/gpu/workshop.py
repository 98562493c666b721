"""Judging on a GPU: kernels built with NVRTC, replayed by launchers of our own, timed by device and outside."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial

from kernelwright.contracts import Candidate, nvrtc
from kernelwright.contracts.model import GpuToolchain
from kernelwright.contracts.registry import gpu_contracts
from kernelwright.contracts.target import target_of
from kernelwright.devices import lock, nvidia
from kernelwright.devices.cpu import probe
from kernelwright.devices.names import Device, require
from kernelwright.devices.peaks_nvidia import GpuPeaks
from kernelwright.errors import CannotDecide
from kernelwright.isolation.levels import Isolation, Level, weakest
from kernelwright.isolation.roles import Role
from kernelwright.isolation.start import isolation_of, level_of
from kernelwright.judge.baselines import Baselines
from kernelwright.judge.gpu.ahead import CORES_PER_BUILD, AheadBuilds, SpareLaunchers
from kernelwright.judge.gpu.baselines import GpuBaselineProcess
from kernelwright.judge.gpu.client import Faulted, LauncherProcess
from kernelwright.judge.gpu.clocks import NullCall, NullLauncher
from kernelwright.judge.gpu.health import (
    helper_kernels,
    launcher_isolation,
    tool_isolation,
    torch_launcher_isolation,
    wait_until_well,
)
from kernelwright.judge.gpu.inspectors import Inspectors
from kernelwright.judge.gpu.job import GpuJob
from kernelwright.judge.gpu.limits import Limits, limits
from kernelwright.judge.gpu.profiler import Profiler
from kernelwright.judge.gpu.runner import fresh_word
from kernelwright.judge.gpu.sanitize import QUICK_TOOLS, SUMMARY, Tool, sanitizer, sanitizing
from kernelwright.judge.oracle_client import OpenTask, OracleClient, WorkloadSpec
from kernelwright.judge.timing.measure import Clock
from kernelwright.judge.verdict import Conditions
from kernelwright.judge.workshop import InspectionPlan, SanitizerDeadline
from kernelwright.version import __version__

MOST_SPARE_BUILDERS = 4  # each serves one candidate, whose public and hidden workloads take one each
CORES_PER_BUILDER = 4
INSPECTED_WORKLOADS = 2  # a public and a hidden one; for a third, launchers are started when it is looked at
# By weight, of which half a billion takes about a second under all tools.
USUALLY_RACECHECKED, MOST_RACECHECKED = 4e9, 40e9
SANITIZER_DEADLINE = SanitizerDeadline(least=120.0, slowdown=100_000.0, most=600.0)
ROOM_FOR_INSPECTORS = 32 << 30  # a launcher that waits under a tool holds most of a gigabyte of the device's memory


class GpuWorkshop:
    def __init__(self, index: int, key: bytes, threads: int) -> None:
        device = Device("cuda", index)
        require(device)
        self.gpu = nvidia.probe(index)
        _require_parts(self.gpu)
        gpu = self.gpu
        self.target = target_of(gpu)
        self.helpers = helper_kernels(self.target.architecture)
        self.threads = threads or len(probe().cores)
        self.oracle = OracleClient(key, self.threads, device)
        self.baselines = Baselines(partial(GpuBaselineProcess, helpers=self.helpers, index=index))
        spare = min(MOST_SPARE_BUILDERS, max(1, len(probe().cores) // CORES_PER_BUILDER))
        self._toolchains = {one.name: one.toolchain(self.target, spare) for one in gpu_contracts()}
        self.ahead = AheadBuilds(self.toolchain, len(probe().cores) // CORES_PER_BUILD)
        inspectors = INSPECTED_WORKLOADS if gpu.memory_bytes >= ROOM_FOR_INSPECTORS else 0
        self.inspectors = Inspectors(self.helpers, index, inspectors, self.working, self._tool_level)
        self.launchers = SpareLaunchers(self._held_launcher, self._launcher_level, min(1, self.ahead.width))
        self.profiler = Profiler(self.helpers, index)
        self._isolation: dict[Role, Isolation] = {}
        self._peaks: GpuPeaks | None = None
        self._null: NullLauncher | None = None
        self._limits: dict[tuple[str, str, bool], Limits] = {}

    @property
    def safety(self) -> str | None:
        return "+".join(Tool) if sanitizer() else None

    def isolation(self, *, library: bool = False) -> tuple[Isolation, ...]:
        """What launchers reach, processes of our own have tried, once."""
        path = sanitizer()
        tools = (self._tried(Role.tool_launcher, path),) if path else ()
        launcher = self._tried(Role.torch_launcher if library else Role.launcher)
        return (*isolation_of(Role.plan_evaluator, Role.builder), launcher, *tools)

    def _tried(self, role: Role, path: str | None = None) -> Isolation:
        if role not in self._isolation:
            with self.working():
                if role is Role.torch_launcher:
                    found = torch_launcher_isolation(self.helpers, self.gpu.index)
                elif path is None:
                    found = launcher_isolation(self.helpers, self.gpu.index)
                else:
                    tooling = sanitizing(path, Tool.memcheck)
                    found = tool_isolation(self.helpers, self.gpu.index, tooling, SUMMARY)
            self._isolation[role] = found
        return self._isolation[role]

    def _tool_level(self) -> Level:
        found = self._isolation.get(Role.tool_launcher)
        return found.level if found else level_of(Role.tool_launcher)

    def demand_memory(self, *, refuse_pageable: bool) -> None:
        """With pageable access a kernel reaches the host memory of its launcher. That process is confined and holds no
        answer and no key; what it says of time is held against the clock outside."""
        if refuse_pageable and self.gpu.pageable_memory_access:
            raise CannotDecide(
                f"{self.gpu.name}: its kernels can reach the host memory of their process (pageable memory access), "
                "which --refuse-pageable does not accept; leave it out, or load nvidia-uvm with uvm_disable_hmm=1"
            )

    def toolchain(self, contract: str) -> GpuToolchain:
        return self._toolchains[contract]

    def may_build_ahead(self, candidate: Candidate) -> bool:
        return self.ahead.width > 0 and not self.ahead.knows(candidate)

    def build_ahead(self, candidate: Candidate, groups: tuple[tuple[WorkloadSpec, ...], ...]) -> None:
        self.ahead.begin(candidate, [tuple(one.signature for one in group) for group in groups])

    def launcher(self, *, torch: bool = False) -> LauncherProcess:
        """A fresh one, on its way up; with `torch` for a candidate with library steps."""
        if torch:
            level = self._launcher_level(library=True)
            return LauncherProcess(self.helpers, self.gpu.index, level=level, torch=True)
        return self.launchers.take()

    def _held_launcher(self, level: Level) -> LauncherProcess:
        return LauncherProcess(self.helpers, self.gpu.index, level=level, held=True)

    def _launcher_level(self, *, library: bool = False) -> Level:
        role = Role.torch_launcher if library else Role.launcher
        found = self._isolation.get(role)
        return found.level if found else level_of(role)

    def inspection_plan(
        self, task: OpenTask, usual: tuple[WorkloadSpec, ...], lighter: tuple[WorkloadSpec, ...] | None
    ) -> InspectionPlan:
        heavy = tuple(one for one in usual if self._weight(task, one) > USUALLY_RACECHECKED)
        if not heavy:
            return InspectionPlan("+".join(Tool), usual)
        given = self.oracle.lighter(task, USUALLY_RACECHECKED) if lighter is None else lighter
        lighter = tuple(one for one in given if self._weight(task, one) <= MOST_RACECHECKED)
        quick = "+".join(QUICK_TOOLS)
        return InspectionPlan(
            f"{quick}, {Tool.racecheck} on a lighter workload" if lighter else quick, (*lighter, *usual), heavy, lighter
        )

    def _weight(self, task: OpenTask, spec: WorkloadSpec) -> float:
        return self.limits(task, spec).cost.weight

    @property
    def deadline(self) -> SanitizerDeadline:
        return SANITIZER_DEADLINE

    def job(self, candidate: Candidate, task: OpenTask) -> GpuJob:
        return GpuJob(self, candidate, task)

    def clock(self) -> Clock:
        self.peaks()
        if self._null is None:
            launcher = self.launcher()
            with self.working():
                launcher.ready()
            with self.measuring():
                self._null = NullLauncher(launcher, fresh_word())
        return Clock("cuda")  # every time is the device's own, and nothing is taken off it

    def empty_again(self) -> NullCall:
        """What a call that does nothing takes on every clock, by calls of just now too. The caller measures."""
        with self._null_launcher() as null:
            null.again()
            return null.call

    def empty_between(self) -> None:
        """One call that does nothing, just before a trial. The caller measures."""
        with self._null_launcher() as null:
            null.between()

    @contextmanager
    def _null_launcher(self) -> Iterator[NullLauncher]:
        assert self._null is not None, "the clock comes first"
        try:
            yield self._null
        except Faulted as fault:
            self._null.close()
            self._null = None  # the next workload gets another
            raise CannotDecide(f"the null launcher ended, so no time can be trusted: {fault.message}") from fault

    def peaks(self) -> GpuPeaks:
        """Once for a workshop, while no lock is held: the oracle takes the device's lock to measure them."""
        if self._peaks is None:
            self._peaks = GpuPeaks(**self.oracle.peaks())
        return self._peaks

    def limits(self, task: OpenTask, spec: WorkloadSpec) -> Limits:
        workload = spec.workload
        key = (task.reference, workload.label, workload.hidden)
        if key not in self._limits:
            cost = self.oracle.cost(task, workload)
            self._limits[key] = limits(cost, workload.dtype, self.gpu, self.peaks())
        return self._limits[key]

    def working(self) -> AbstractContextManager[None]:
        return lock.working(self.gpu.device)

    def measuring(self) -> AbstractContextManager[None]:
        return lock.measuring(self.gpu.device)

    def recover(self) -> None:
        with self.working():
            wait_until_well(self.helpers, self.gpu.index)

    def conditions(self, arena: str, safety: str, contract: str, *, library: bool = False) -> Conditions:
        return Conditions(
            sandbox=weakest(one.level for one in self.isolation(library=library)),
            arena=arena,
            safety=safety,
            device=f"cuda: {self.gpu.name}",
            threads=self.threads,
            judge_version=__version__,
            compiler=self.toolchain(contract).compiler,
            driver=self.gpu.driver,
            runner="not confined" if self._launcher_level(library=library) is Level.none else "confined",
        )

    def close(self) -> None:
        if self._null is not None:
            self._null.close()
        self.baselines.close()
        self.oracle.close()
        self.ahead.close()
        for toolchain in self._toolchains.values():
            toolchain.close()
        self.inspectors.close()
        self.launchers.close()


def _require_parts(gpu: nvidia.Gpu) -> None:
    """Everything that an evaluation will need, before anything is started."""
    if missing := nvrtc.available():
        raise CannotDecide(missing)
    if not (gpu.virtual_memory and gpu.exports_descriptors):
        raise CannotDecide(
            f"{gpu.name}: this driver cannot share GPU memory between processes (as under WSL or MIG), and without "
            "that inputs would not be safe from a candidate"
        )
