"""A candidate on a GPU as the measurement knows runners: it gets ready, it is asked for trials, each has an ending.

What `judge.cpu.runner.start_runner` and `isolation.warden.WardedProcess` are on a CPU, with the device's time as the
time of a trial.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import TracebackType

from kernelwright.contracts.model import GpuBuilt
from kernelwright.contracts.program import FunctionUse
from kernelwright.isolation.log import Log
from kernelwright.isolation.warden import Ending, Reply
from kernelwright.judge.gpu.client import Faulted, FaultKind, LauncherProcess, Timing
from kernelwright.judge.gpu.clocks import Disagreement, NullCall, disagreement
from kernelwright.judge.verdict import Reason

PREPARE = "p"
NULL_EVERY = 6  # trials, of which one has an empty call before it
_ENDINGS = {FaultKind.timed_out: Ending.timeout, FaultKind.gone: Ending.exited}
REASONS = {
    FaultKind.does_not_load: Reason.does_not_load,
    FaultKind.bad_arguments: Reason.launch_failed,
    FaultKind.launch_failed: Reason.launch_failed,
    FaultKind.illegal_access: Reason.illegal_access,
    FaultKind.device_fault: Reason.crashed,
    FaultKind.out_of_memory: Reason.out_of_memory,
    FaultKind.timed_out: Reason.timed_out,
    FaultKind.dirty_workspace: Reason.dirty_workspace,
    FaultKind.gone: Reason.crashed,  # no code of the candidate's could have ended it
}


@dataclass(frozen=True)
class GpuReply(Reply):
    """`message` is the driver's word where the ending is not ok."""

    message: str = ""

    def describe(self) -> str:
        return self.message or super().describe()


class GpuRunner:
    """One workload of a candidate in a launcher. Launchers may be started ahead: they have met no candidate yet.

    With `keep` the launcher stays up, for other workloads of the same candidate. `before_trial` has an empty call made
    by a launcher of our own, now and then: what a call costs beside its kernels is known under the same conditions.
    """

    def __init__(
        self,
        launcher: LauncherProcess,
        built: GpuBuilt,
        descriptors: Sequence[int],
        *,
        keep: bool = False,
        before_trial: Callable[[], None] | None = None,
    ) -> None:
        self._launcher, self._keep, self._before_trial = launcher, keep, before_trial
        self.timings: list[Timing] = []
        self.uses: tuple[FunctionUse, ...] = ()
        self.fault: Faulted | None = None
        try:
            self.uses = launcher.open(built.program, built.modules, descriptors)
        except Faulted as fault:
            self.fault = fault

    @property
    def log(self) -> Log:
        return self._launcher.log

    @property
    def alive(self) -> bool:
        return self.fault is None

    def ready(self) -> Reply:
        """Whether the modules loaded and the arguments fit."""
        return GpuReply(Ending.ok) if self.fault is None else self._ended(self.fault)

    def trial(self, op: str, deadline: float) -> Reply:
        """One call; its time is the device's. Preparing constant tensors is another `op`, and nothing to do here."""
        if op == PREPARE:
            return GpuReply(Ending.ok)
        if self._before_trial is not None and len(self.timings) % NULL_EVERY == 0:
            self._before_trial()
        try:
            timing = self._launcher.trial(fresh_word(), deadline)
        except Faulted as fault:
            self.fault = fault
            return self._ended(fault)
        self.timings.append(timing)
        return GpuReply(Ending.ok, round(timing.device * 1e9))

    def disagreement(self, empty: NullCall) -> Disagreement | None:
        """Whether the clock outside saw something else than the device's: then no time of this process counts."""
        return disagreement(self.timings, empty)

    def _ended(self, fault: Faulted) -> Reply:
        ending = _ENDINGS.get(fault.kind, Ending.killed)
        return GpuReply(ending, reason=REASONS[fault.kind], message=f"ended: {fault.message}")

    def close(self) -> None:
        self._launcher.close()

    def __enter__(self) -> GpuRunner:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        if not self._keep:
            self._launcher.__exit__(*_)


class UntimedRunner(GpuRunner):
    """For calls that are checked and not timed: no gate, no clean caches, no empty calls between them."""

    def trial(self, op: str, deadline: float) -> Reply:
        if op == PREPARE:
            return GpuReply(Ending.ok)
        try:
            self._launcher.run(fresh_word(), deadline)
        except Faulted as fault:
            self.fault = fault
            return self._ended(fault)
        return GpuReply(Ending.ok)


def fresh_word() -> int:
    """A pattern for scratch: a NaN in every floating-point format, and another one each time."""
    high, low = (0x7FF0 | secrets.randbelow(15) + 1 for _ in range(2))
    return high << 16 | low
