"""The controller's hand on a launcher: start it, send it a program, have its calls timed, end it."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from kernelwright.contracts.program import FunctionUse, Program
from kernelwright.errors import CannotDecide
from kernelwright.isolation.channel import Message
from kernelwright.isolation.gpu import confined, environment
from kernelwright.isolation.warden import Log
from kernelwright.judge.gpu.gated import (
    ANSWER_SECONDS,
    CHANNEL,
    END_SECONDS,
    Faulted,
    FaultKind,
    GatedProcess,
    Timing,
    memory_file,
)

__all__ = ["END_SECONDS", "FaultKind", "Faulted", "LauncherProcess", "Timing"]


class LauncherProcess(GatedProcess):
    """A fresh process for one candidate. Between trials it has nothing to run."""

    def __init__(self, helpers: bytes, index: int = 0, *, confine: bool = False, prefix: Sequence[str] = ()) -> None:
        """`prefix` is a command that runs another one: a sanitizer. `confine` puts the process into the sandbox."""
        log = Log()
        command = [sys.executable, "-m", "kernelwright.judge.launcher.launcher", CHANNEL, str(index)]
        if confine:
            command = confined(command, CHANNEL, log.fd)
        super().__init__([*prefix, *command], environment(), helpers, patient=bool(prefix), log=log)

    def open(
        self, program: Program, modules: Sequence[bytes], descriptors: Sequence[int], *, exact: bool = False
    ) -> tuple[FunctionUse, ...]:
        """Maps the arena and loads the modules; `exact` is for sanitizers. The descriptors stay the caller's."""
        self._start()
        files = [memory_file(module) for module in modules]
        try:
            self._ask({"do": "open", "program": program.to_json(), "exact": exact}, [*files, *descriptors])
        finally:
            for file in files:
                os.close(file)
        answer = self._answer(ANSWER_SECONDS)
        return tuple(FunctionUse(**use) for use in answer["uses"])

    def ready(self) -> None:
        """Returns when it is up; it was started when it was made."""
        self._start()

    def _start(self) -> None:
        try:
            super()._start()
        except Faulted as fault:
            raise CannotDecide(f"the launcher did not start: {fault.message}") from fault

    def trial(self, word: int, deadline: float, *, empty: bool = False) -> Timing:
        """One timed call. `word` is a fresh pattern for everything that is poisoned."""
        answer, outside = self._gated({"do": "trial", "word": word, "empty": empty}, deadline)
        self._look_at_workspaces(answer)
        return Timing(answer["seconds"], outside)

    def run(self, word: int, deadline: float) -> None:
        """One call without clocks."""
        self._start()
        self._ask({"do": "run", "word": word})
        self._look_at_workspaces(self._answer(deadline))

    def well(self, deadline: float = 10.0) -> bool:
        """Whether the device behind the launcher computes; for a launcher that has not met a candidate."""
        self._start()
        self._ask({"do": "well"})
        return bool(self._answer(deadline)["well"])

    def _look_at_workspaces(self, answer: Message) -> None:
        if answer["dirty"]:
            raise self._fault(FaultKind.dirty_workspace, f"not left zero: {', '.join(answer['dirty'])}")
