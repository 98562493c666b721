"""The controller's side of a launcher: start it, send it a program, have its calls timed, end it."""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kernelwright.contracts.program import FunctionUse, Program
from kernelwright.errors import CannotDecide
from kernelwright.isolation import start
from kernelwright.isolation.channel import Message
from kernelwright.isolation.gpu_access import gpu_access
from kernelwright.isolation.log import ToolReport
from kernelwright.isolation.roles import Role
from kernelwright.judge.gpu.gated import (
    ANSWER_SECONDS,
    END_SECONDS,
    Faulted,
    FaultKind,
    GatedProcess,
    Timing,
    memory_file,
)
from kernelwright.judge.launcher.copies import APART, BESIDE, UNTIMED
from kernelwright.runtime.library_steps import with_kept_results

if TYPE_CHECKING:
    from kernelwright.isolation.levels import Level

ASK_SECONDS = 0.2  # between two questions whether to wait on
__all__ = ["END_SECONDS", "FaultKind", "Faulted", "LauncherProcess", "Timing", "Tooling"]

COPIES = "KERNELWRIGHT_TOOL_COPIES"  # a variable: `beside` keeps the arena mapped while a tool watches a call

reports_on_stdout: set[str] = set()
"""Tools, by path, that a canary saw report on standard output only: what a kernel prints is among their lines then."""
ENV = "/usr/bin/env"  # what the warden executes cannot be a script, and the toolkit's tools are


def copies_under_tools() -> str:
    """Where the copies lie on which a call under a tool works: see `judge.launcher.copies`."""
    found = os.environ.get(COPIES, APART)
    if found not in (APART, BESIDE):
        raise CannotDecide(f"{COPIES} is {found!r}: it takes {APART} or {BESIDE}")
    return found


@dataclass(frozen=True)
class Tooling:
    """A command that runs another one and watches it. It takes `--log-file` for where to report; lines that are
    `telling` are kept of a report of any length."""

    path: str
    arguments: tuple[str, ...]
    telling: re.Pattern[bytes] | None = None


LAUNCHER, WITH_TORCH = "kernelwright.judge.launcher.launcher", "kernelwright.judge.launcher.with_torch"


class LauncherProcess(GatedProcess):
    """A fresh process for one candidate. Between trials it has nothing to run."""

    def __init__(
        self,
        helpers: bytes,
        index: int = 0,
        *,
        level: Level | None = None,
        tooling: Tooling | None = None,
        torch: bool = False,
        held: bool = False,
    ) -> None:
        """Under a tool where there is `tooling`; with `torch` for programs with steps of torch's. `level` none: not
        confined, as where a canary did not work."""
        assert not (tooling and torch), "a tool would watch torch"
        self.report = ToolReport(telling=tooling.telling) if tooling else None
        output: ToolReport | None = None
        gpu = gpu_access(index)
        command = [sys.executable, "-m", WITH_TORCH if torch else LAUNCHER, start.CHANNEL, str(gpu.index)]
        grant = start.Grant(gpu=gpu)
        if tooling is not None and self.report is not None:
            stdout = tooling.path in reports_on_stdout
            grant = start.Grant(gpu=gpu, tool=tooling.path, writable=() if stdout else (self.report.fd,))
            to_report = () if stdout else ("--log-file", self.report.path)
            command = [ENV, tooling.path, *tooling.arguments, *to_report, *command]
            output = self.report if stdout else None
        self._copies, self._torch = copies_under_tools(), torch
        if tooling is not None and self._copies == APART:
            command.append(UNTIMED)
        role = Role.torch_launcher if torch else Role.launcher if tooling is None else Role.tool_launcher
        patient = tooling is not None
        super().__init__(role, command, grant, helpers, level=level, patient=patient, output=output, held=held)
        if self.report is not None:
            self.report.started()

    def open(
        self, program: Program, modules: Sequence[bytes], descriptors: Sequence[int], *, exact: bool = False
    ) -> tuple[FunctionUse, ...]:
        """Maps the arena and loads the modules; with `exact` the call works on copies, as under a tool. The descriptors
        stay the caller's."""
        self._start()
        files = [memory_file(module) for module in modules]
        copies = BESIDE if self._torch else self._copies  # no tool watches a launcher with torch
        request = {"do": "open", "program": program.to_json(), "exact": copies if exact else ""}
        try:
            self._ask(request, [*files, *descriptors])
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
        message, timing = self._gated({"do": "trial", "word": word, "empty": empty}, deadline)
        self._look_at_workspaces(message)
        return timing

    def run(
        self,
        word: int,
        deadline: float,
        *,
        filled: bool = False,
        late: Callable[[], bool] = lambda: False,
    ) -> None:
        """One call without clocks. With `filled` outputs hold the last byte of `word` before, as scratch does. `late`
        is asked meanwhile and says whether to wait no longer."""
        self._start()
        self._ask({"do": "run", "word": word, "filled": filled})
        until = time.monotonic() + deadline
        while not self._readable(max(0.0, min(ASK_SECONDS, until - time.monotonic()))):
            if late() or time.monotonic() >= until:
                raise self._fault(FaultKind.timed_out, "the call was not done in time")
        self._look_at_workspaces(self._answer(0.0))

    @contextmanager
    def without_torch(
        self, program: Program, modules: Sequence[bytes], descriptors: Sequence[int], deadline: float
    ) -> Iterator[tuple[Program, list[int]]]:
        """The program as a launcher under a tool can carry it out, on the values that the arena holds, and the
        descriptors that go with it. What has steps of torch's is called once for it, on copies: this launcher has
        torch then."""
        if not program.library:
            yield program, list(descriptors)
            return
        self.open(program, modules, descriptors, exact=True)
        self._ask({"do": "keep"})
        _, kept = self._answer_with_descriptors(deadline)
        try:
            yield with_kept_results(program), [*descriptors, *kept]
        finally:
            for descriptor in kept:
                os.close(descriptor)

    def well(self, deadline: float = 10.0) -> bool:
        """Whether the device behind the launcher computes; for a launcher that has not met a candidate."""
        self._start()
        self._ask({"do": "well"})
        return bool(self._answer(deadline)["well"])

    def reported(self) -> str:
        """What the tool reported, once the process has ended."""
        return self.report.text() if self.report else ""

    @property
    def report_was_cut(self) -> bool:
        """Whether the report was longer than what is kept of one."""
        return self.report is not None and self.report.cut

    def _look_at_workspaces(self, answer: Message) -> None:
        if answer["dirty"]:
            raise self._fault(FaultKind.dirty_workspace, f"not left zero: {', '.join(answer['dirty'])}")
