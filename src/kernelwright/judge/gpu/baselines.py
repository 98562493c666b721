"""The controller's hand on GPU baselines: clean trusted processes, timed through the same gate as a candidate."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict

from kernelwright.errors import CannotDecide
from kernelwright.judge.gpu.gated import CHANNEL, Faulted, GatedProcess, Timing
from kernelwright.judge.sandbox import trusted_environment
from kernelwright.tasks.model import Signature

BASELINES = ("eager", "compile")
"""`max-autotune` is the third: it takes minutes, and the same row differs from compile to compile."""
OPEN_SECONDS = 900.0
RUN_SECONDS = 120.0


class GpuBaselineProcess(GatedProcess):
    """One process for each baseline; it stays for many workloads and candidates."""

    def __init__(self, name: str, helpers: bytes, index: int = 0) -> None:
        self.name = name
        command = [sys.executable, "-m", "kernelwright.judge.gpu.baseline", CHANNEL, str(index), name]
        path = ":".join(entry for entry in sys.path if entry)
        super().__init__(command, trusted_environment(PYTHONPATH=path), helpers)

    def open(self, task: str, signature: Signature, descriptors: Sequence[int]) -> None:
        """Maps the workload's arena, which holds values already, and compiles where that is the baseline."""
        self._do("start", {}, (), OPEN_SECONDS)
        arguments = [asdict(argument) for argument in signature.arguments]
        self._do("open", {"task": task, "signature": arguments}, descriptors, OPEN_SECONDS)

    def write(self) -> None:
        """Runs once and leaves the results in the arena."""
        self._do("write", {}, (), RUN_SECONDS)

    def time(self, word: int) -> Timing:
        try:
            answer, outside = self._gated({"do": "trial", "word": word}, RUN_SECONDS)
        except Faulted as fault:
            raise self._undecided("run", fault) from fault
        return Timing(answer["seconds"], outside)

    def _do(self, what: str, arguments: dict[str, object], descriptors: Sequence[int], patience: float) -> None:
        try:
            self._start()
            if what != "start":
                self._ask({"do": what, **arguments}, descriptors)
                self._answer(patience)
        except Faulted as fault:
            raise self._undecided(what, fault) from fault

    def _undecided(self, what: str, fault: Faulted) -> CannotDecide:
        return CannotDecide(f"the {self.name} baseline could not {what} ({fault.message})")
