"""One candidate on a GPU: built for its workloads, inspected by the sanitizers, and run in one launcher of its own.

One process serves all workloads of a candidate. It never sees another candidate, and what a call leaves behind is
cleared before the next one, whichever workload that belongs to.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from kernelwright.contracts import Candidate
from kernelwright.contracts.artefact import code_hash
from kernelwright.contracts.model import BuildFailure, GpuBuild, GpuBuilt
from kernelwright.contracts.program import FunctionUse
from kernelwright.contracts.registry import contract_named
from kernelwright.devices import lock
from kernelwright.errors import CannotDecide
from kernelwright.judge.gpu.client import Faulted, FaultKind, LauncherProcess
from kernelwright.judge.gpu.fills import reads_unwritten
from kernelwright.judge.gpu.limits import Limits
from kernelwright.judge.gpu.runner import REASONS, GpuRunner, UntimedRunner, fresh_word
from kernelwright.judge.gpu.sanitize import QUICK_TOOLS, Inspection, Tool
from kernelwright.judge.oracle_client import OpenTask, WorkloadSpec
from kernelwright.judge.timing.measure import Rejection, build_rejection, result_rejection
from kernelwright.judge.timing.statistics import median
from kernelwright.judge.verdict import (
    BuildEvidence,
    KernelUse,
    ProcessEvidence,
    Profile,
    Reason,
    SanitizerEvidence,
    SpeedStatus,
    Stage,
    WorkloadResult,
)
from kernelwright.judge.workshop import OtherWorkload, SanitizerTimeoutError
from kernelwright.runtime.library_steps import with_kept_results, without_own_kernels
from kernelwright.tasks.model import Signature

if TYPE_CHECKING:
    from kernelwright.judge.gpu.workshop import GpuWorkshop

NOT_YET_A_FAULT = (FaultKind.timed_out, FaultKind.out_of_memory)
AHEAD_SECONDS = 0.7  # less than any tool takes, during which the oracle would have nothing to do
KEPT_SECONDS = 20.0  # for one call whose results of torch's are kept; no tool slows it down
LIBRARY_DRAWS = 3  # values on which torch alone has to be right: one draw may hide what a kernel does
UNTRUSTED_SPEEDS = (SpeedStatus.clocks_disagree, SpeedStatus.investigate)


class GpuJob:
    def __init__(self, shop: GpuWorkshop, candidate: Candidate, task: OpenTask) -> None:
        self._shop, self._candidate, self._task = shop, candidate, task
        self._built: dict[WorkloadSpec, GpuBuilt] = {}
        self._launcher: LauncherProcess | None = None
        self._running: tuple[GpuRunner, GpuBuilt, Limits] | None = None
        self._with_torch = False
        self._inspected = False
        self._without: tuple[str, ...] = ()  # tools that did not end
        self.build_seconds: float | None = None
        self.artefact: str | None = None

    def build(self, specs: tuple[WorkloadSpec, ...], *, inspected: bool) -> Rejection | None:
        """The sanitizers take the same build. The launcher comes up meanwhile."""
        if not specs:
            return None
        shop = self._shop
        with shop.working():
            if self._launcher is None:
                with lock.working():
                    self._launcher = shop.launcher()
                    shop.launchers.refill()
            made = self._made(tuple(one.signature for one in specs))
            self._launcher.ready()
        if isinstance(made, BuildFailure):
            return build_rejection(made.lines, timed_out=made.timed_out)
        self._built.update(zip(specs, made.built, strict=True))
        if self.library and not self._with_torch:
            self._with_torch = True
            self._new_launcher()
        if self.artefact is None:  # of the public workloads; an author sees it
            self.build_seconds, self.artefact = made.seconds, code_hash(made.built[0].modules)
        return None

    @property
    def library(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name for built in self._built.values() for name in built.program.library))

    def uses_library(self, spec: WorkloadSpec) -> bool:
        return bool(self._built[spec].program.library)

    def _new_launcher(self) -> None:
        """In place of one that cannot be used, or not for this candidate."""
        if self._launcher is not None:
            self._close_launcher(self._launcher)
        shop = self._shop
        shop.isolation(library=self._with_torch)  # before it is started: how far it is confined
        with shop.working():
            self._launcher = shop.launcher(torch=self._with_torch)
            self._launcher.ready()

    def library_alone(self, spec: WorkloadSpec, descriptors: list[int], deadline: float) -> Rejection | None:
        built = self._built[spec]
        with self._shop.working():
            self._shop.oracle.load()
        for program in without_own_kernels(built.program, [kernel.own for kernel in built.kernels]):
            alone = replace(built, program=program)
            if all(self._is_right(alone, descriptors, deadline, new=draw > 0) for draw in range(LIBRARY_DRAWS)):
                operators = ", ".join(built.program.library)
                line = f"with its kernels left out the result is the same: torch computes it ({operators})"
                return Rejection(Stage.compare, Reason.library_alone, BuildEvidence(lines=(line,)))
        return None

    def _is_right(self, built: GpuBuilt, descriptors: list[int], deadline: float, *, new: bool) -> bool:
        """One call of what is left of a program, on new values or on those that are there. What ends early is not."""
        shop = self._shop
        assert self._launcher is not None, "build comes first"
        try:
            with shop.working():
                if new:
                    shop.oracle.load()
                else:
                    shop.oracle.restore()
                self._launcher.open(built.program, built.modules, descriptors)
                self._launcher.run(fresh_word(), deadline)
                return not shop.oracle.check()
        except Faulted:  # an index, say, that a kernel of the candidate's would have written
            shop.recover()
            self._new_launcher()
            return False

    def _made(self, signatures: tuple[Signature, ...]) -> GpuBuild | BuildFailure:
        """What was begun ahead takes the CPU's lock itself: who waits for it must not hold it."""
        made = self._shop.ahead.take(self._candidate, signatures)
        if made is None:
            toolchain = self._shop.toolchain(self._candidate.contract)
            with lock.working():
                made = toolchain.build(self._candidate, signatures)
                toolchain.refill()
        return made

    def inspect(self, spec: WorkloadSpec, descriptors: list[int], *, quick: bool, deadline: float) -> Rejection | None:
        shop, built = self._shop, self._built[spec]
        self._inspected = True
        source = contract_named(self._candidate.contract).source_name
        with shop.working():
            family = shop.oracle.load()
            shop.oracle.draw_ahead(AHEAD_SECONDS)
            tools = tuple(tool for tool in (QUICK_TOOLS if quick else tuple(Tool)) if tool not in self._without)
            assert self._launcher is not None, "build comes first"
            try:
                left = self._launcher.without_torch(built.program, built.modules, descriptors, KEPT_SECONDS)
                with left as (program, given):
                    found = shop.inspectors.inspect(
                        tools, program, built.modules, given, fresh_word(), deadline, source
                    )
            except Faulted as of_torch:  # of the call with torch beside it: no tool has seen it
                found = tuple(Inspection(tool, fault=of_torch) for tool in tools)
        if self._with_torch and not self._launcher.alive:
            self._new_launcher()
        fault = inspection_rejection(found, spec.workload.label, source)
        if fault is not None:
            return fault
        late = tuple(one.tool for one in found if one.fault is not None)
        if late:
            shop.recover()
            memory = all(one.fault is None or one.fault.kind is FaultKind.out_of_memory for one in found)
            raise SanitizerTimeoutError(late, spec, deadline, memory=memory)
        answer = shop.oracle.check()
        if answer:
            return result_rejection(answer, spec, family, trial=0)
        return self._fill_twice(spec, descriptors, deadline) if self._without else None

    def do_without(self, tools: tuple[str, ...]) -> bool:
        """initcheck alone: no other means finds a race, or an access beside a tensor that no guard is next to."""
        if set(tools) == {Tool.initcheck}:
            self._without = tools
        return set(tools) == {Tool.initcheck}

    def _fill_twice(self, spec: WorkloadSpec, descriptors: list[int], deadline: float) -> Rejection | None:
        shop, label = self._shop, spec.workload.label
        assert self._launcher is not None, "build comes first"
        with shop.working():
            runner = UntimedRunner(self._launcher, self._built[spec], descriptors, keep=True)
            family = shop.oracle.load()
            try:
                if runner.fault is not None:
                    raise runner.fault
                answer, unwritten = reads_unwritten(shop.oracle, self._launcher, deadline)
            except Faulted as fault:
                evidence = ProcessEvidence(workload=label, trial=0, ending=f"ended: {fault.message}")
                return Rejection(Stage.safety, REASONS[fault.kind], evidence)
        if answer:
            return result_rejection(answer, spec, family, trial=0)
        if unwritten:
            return Rejection(Stage.safety, Reason.unsafe, SanitizerEvidence(workload=label, lines=unwritten))
        return None

    def start(self, spec: WorkloadSpec, descriptors: list[int]) -> GpuRunner:
        shop, built = self._shop, self._built[spec]
        allowed = shop.limits(self._task, spec)
        assert self._launcher is not None, "build comes first"
        with shop.working():
            runner = GpuRunner(self._launcher, built, descriptors, keep=True, before_trial=shop.empty_between)
        self._running = runner, built, allowed
        return runner

    def check(self, spec: WorkloadSpec, descriptors: list[int], _: OtherWorkload | None = None) -> UntimedRunner:
        """In the launcher that ran the trials. The caller works: nothing is measured meanwhile."""
        assert self._launcher is not None, "build comes first"
        return UntimedRunner(self._launcher, self._built[spec], descriptors, keep=True)

    def finish(self, result: WorkloadResult) -> WorkloadResult:
        assert self._running is not None
        runner, built, allowed = self._running
        empty = self._shop.empty_again()
        outside = median([timing.outside for timing in runner.timings]) - empty.outside
        told: dict[str, object] = {
            "prepare_seconds": None,  # the contract has no such step
            "outside_seconds": max(outside, 0.0),
            "kernels": kernel_uses(built, runner.uses),
        }
        different = runner.disagreement(empty)
        told["clock_disagreement"] = different.describe() if different else None
        speed = SpeedStatus.clocks_disagree if different else _believed(result, allowed)
        if result.seconds is not None:
            fastest = result.fastest_baseline if speed not in UNTRUSTED_SPEEDS else None
            told["bound"] = allowed.value(result.seconds, fastest.seconds if fastest else None)
        return result.model_copy(update={**told, "speed": speed})

    def known_profile(self, spec: WorkloadSpec) -> Profile | None:
        return self._shop.profiler.known(self._profiled(spec))

    def _profiled(self, spec: WorkloadSpec) -> GpuBuilt:
        """The profiler sees the candidate's kernels, and torch's results as copies."""
        built = self._built[spec]
        return replace(built, program=with_kept_results(built.program)) if built.program.library else built

    def profile(self, spec: WorkloadSpec, descriptors: list[int]) -> Profile:
        shop, built = self._shop, self._profiled(spec)
        assert self._launcher is not None, "build comes first"
        try:
            with shop.working():
                shop.oracle.load()
                of = self._built[spec].program
                with self._launcher.without_torch(of, built.modules, descriptors, KEPT_SECONDS) as (_, given):
                    return shop.profiler.profile(built, given, fresh_word())
        except Faulted as fault:  # launches that run side by side may wait for each other for ever under a profiler
            shop.recover()
            why = f"the call ended under the profiler: {fault.message}"
            return shop.profiler.remember(built, Profile(missing=why))

    def close(self) -> None:
        if self._launcher is not None:
            self._close_launcher(self._launcher)
            self._launcher = None
        if self._inspected:
            self._shop.inspectors.refill()

    @staticmethod
    def _close_launcher(launcher: LauncherProcess) -> None:
        launcher.close()
        launcher.log.close()


def _believed(result: WorkloadResult, allowed: Limits) -> SpeedStatus:
    """Whether the device could be as fast as that."""
    impossible = result.seconds is not None and result.seconds < allowed.impossible_below
    return SpeedStatus.investigate if impossible else result.speed


def kernel_uses(built: GpuBuilt, uses: tuple[FunctionUse, ...]) -> tuple[KernelUse, ...]:
    """What the driver and the assembler say of each kernel, under the name that its author gave it."""
    return tuple(
        KernelUse(
            kernel=kernel.name,
            registers=use.registers,
            spill_stores=kernel.spill_stores,
            spill_loads=kernel.spill_loads,
            static_shared=use.static_shared,
            dynamic_shared=use.dynamic_shared,
            threads=use.threads,
            blocks_per_sm=use.blocks_per_sm,
            occupancy=use.occupancy,
        )
        for kernel, use in zip(built.kernels, uses, strict=True)
    )


def inspection_rejection(found: tuple[Inspection, ...], label: str, source: str) -> Rejection | None:
    """What the sanitizers hold against a candidate: their findings first, since an early end follows from those.

    Not that a call under them takes too long, or that copies and what a tool keeps of them do not fit beside the
    judge's: one that does not end, or needs too much itself, shows in the trials.
    """
    lines = tuple(finding.describe(source) for inspection in found for finding in inspection.findings)
    if lines:
        return Rejection(Stage.safety, Reason.unsafe, SanitizerEvidence(workload=label, lines=lines))
    for inspection in found:
        if inspection.fault is not None and inspection.fault.kind not in NOT_YET_A_FAULT:
            evidence = ProcessEvidence(
                workload=label, trial=0, ending=f"ended under {inspection.tool}: {inspection.fault.message}"
            )
            return Rejection(Stage.safety, REASONS[inspection.fault.kind], evidence)
    for inspection in found:
        if inspection.failed:
            raise CannotDecide(inspection.failed)
    return None
