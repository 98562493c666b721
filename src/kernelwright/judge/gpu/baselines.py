"""The controller's side of GPU baselines: clean trusted processes, timed through the same gate as a candidate.

The same questions as `judge.baselines.BaselineProcess` answers on a CPU.
"""

from __future__ import annotations

import secrets
import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from kernelwright.errors import CannotDecide
from kernelwright.isolation import start
from kernelwright.isolation.channel import Message
from kernelwright.isolation.roles import Role
from kernelwright.judge.baselines import BaselineUnfit
from kernelwright.judge.gpu.gated import Faulted, GatedProcess, Timing

if TYPE_CHECKING:
    from kernelwright.judge.oracle_client import OpenTask, WorkloadSpec

OPEN_SECONDS = 900.0
RUN_SECONDS = 120.0


class GpuBaselineProcess(GatedProcess):
    """One process for each baseline; it stays for many workloads and candidates."""

    def __init__(self, name: str, helpers: bytes, index: int = 0) -> None:
        self.name = name
        self.timings: list[Timing] = []  # of the workload that is open
        self._opened = False
        command = [sys.executable, "-m", "kernelwright.judge.baseline_processes.gpu", start.CHANNEL, str(index), name]
        path = ":".join(entry for entry in sys.path if entry)
        super().__init__(Role.baseline, command, start.Grant(variables={"PYTHONPATH": path}), helpers)

    def close(self) -> None:
        super().close()
        self.log.close()

    def open(self, task: OpenTask, spec: WorkloadSpec, descriptors: Sequence[int]) -> None:
        """Maps the workload's arena, which holds values already, and compiles where that is the baseline."""
        self.timings = []
        self._opened = True
        arguments = [asdict(argument) for argument in spec.signature.arguments]
        told = {"task": task.reference, "signature": arguments, "hidden": spec.workload.hidden}
        unfit = self._do("open", told, descriptors, OPEN_SECONDS).get("unfit")
        if unfit:
            raise BaselineUnfit(self.name, str(unfit))

    def write(self) -> None:
        """Runs once and leaves the results in the arena."""
        self._do("write", {}, (), RUN_SECONDS)

    def release(self) -> None:
        """Gives back what it holds of a workload, once it holds any."""
        if self._opened:
            self._do("release", {}, (), RUN_SECONDS)

    def time(self) -> float:
        """The device's time of one call; the other clock's is kept beside it."""
        try:
            _, timing = self._gated({"do": "trial", "word": secrets.randbits(31)}, RUN_SECONDS)
        except Faulted as fault:
            raise self._undecided("run", fault) from fault
        self.timings.append(timing)
        return timing.device

    def empty(self) -> float:
        """Nothing is taken off the device's times."""
        return 0.0

    def _do(self, what: str, arguments: dict[str, object], descriptors: Sequence[int], patience: float) -> Message:
        try:
            self._start()
            self._ask({"do": what, **arguments}, descriptors)
            return self._answer(patience)
        except Faulted as fault:
            raise self._undecided(what, fault) from fault

    def _undecided(self, what: str, fault: Faulted) -> CannotDecide:
        return CannotDecide(f"the {self.name} baseline could not {what} ({fault.message})")
