"""Runs a recorder in the sandbox and takes what it writes: a stranger's host code in, bytes to be checked out.

Which program records is the contract's business: Python with one of our scripts, or a binary of our own that loads a
library. It gets a folder with its files, no GPU, no network, limits of time and memory, and one file to write.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from pydantic import TypeAdapter, ValidationError

from kernelwright.contracts.model import BuildFailure
from kernelwright.errors import CannotDecide
from kernelwright.isolation import levels, start, warden
from kernelwright.isolation.log import Log
from kernelwright.isolation.roles import Role
from kernelwright.paths import printable

LINES = 20
LONGEST_LINE = 400
LIFE_SECONDS = 3600.0
GO = "go"
Files = Mapping[str, str | bytes]
_Answer = TypeVar("_Answer")


@dataclass(frozen=True)
class RecorderProgram:
    """`command` makes the command line of the folder, as the process sees it, and of the file that it has to write.

    One that `waits` first loads what it needs, then reads a byte from the pipe GO in its folder, where everything else
    lies by then: it can be started before its candidate is known. `beside` are files of ours that lie there from the
    start.
    """

    command: Callable[[str, str], Sequence[str]]
    visible: tuple[str | Path, ...] = ()
    role: Role = Role.recorder
    waits: bool = False
    address_space: int = 0
    scratch_bytes: int = 64 << 20
    most_bytes: int = 16 << 20  # of the answer
    variables: Mapping[str, str] | None = None
    beside: Files = field(default_factory=dict)
    demands: bool = True  # the isolation that is accepted where a caller names none; entrances may have accepted less


class RecorderProcess:
    """A recorder for one candidate. `files` are those of a program that does not wait for them."""

    def __init__(self, program: RecorderProgram, files: Files | None = None) -> None:
        if program.demands:
            levels.demand(levels.accepted(), start.isolation_of(program.role))
        self._program, self._go = program, -1
        self._log, self._product = Log(), os.memfd_create("record", os.MFD_CLOEXEC)
        self._folder = Path(tempfile.mkdtemp(prefix="kernelwright-record-"))
        try:
            start.make_folder(self._folder, {})
            if program.waits:
                os.mkfifo(self._folder / GO)
                (self._folder / GO).chmod(0o644)
                self._go = os.open(self._folder / GO, os.O_RDWR | os.O_CLOEXEC)  # never blocks
            self._write({**program.beside, **(files or {})})
            self._running = self._started()
        except OSError as error:
            self._forget()
            raise _cannot_record(error) from error

    @property
    def ended(self) -> bool:
        return self._running.ended

    def record(self, files: Files, subject: str, seconds: float) -> bytes | BuildFailure:
        """What it writes within `seconds`. `subject` names the candidate's file in a failure, which quotes its last
        words."""
        try:
            self._write(files)
            if self._program.waits:
                os.write(self._go, b"\n")
            reply = self._running.reply(seconds)
            if reply.ending is warden.Ending.timeout:
                return BuildFailure((f"{subject} did not finish within {seconds:g} s",), timed_out=True)
            if (reply.ending, reply.value) != (warden.Ending.exited, 0):
                said = [printable(line)[:LONGEST_LINE] for line in self._log.text().splitlines() if line.strip()]
                return BuildFailure(tuple(said[-LINES:]) or (f"{subject} {reply.describe()} without a message",))
            content = os.pread(self._product, self._program.most_bytes + 1, 0)
        except OSError as error:
            raise _cannot_record(error) from error
        finally:
            self.close()
        if len(content) > self._program.most_bytes:
            return BuildFailure((f"{subject}: the record has more than {self._program.most_bytes:,} bytes",))
        return content

    def close(self) -> None:
        self._running.close()
        self._forget()

    def _forget(self) -> None:
        if self._go >= 0:
            os.close(self._go)
        os.close(self._product)
        self._log.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _write(self, files: Files) -> None:
        for name, content in files.items():
            path = self._folder / name
            path.write_bytes(content if isinstance(content, bytes) else content.encode())
            path.chmod(0o755)

    def _started(self) -> warden.RunningProgram:
        source, scratch = start.source_directory(self._folder), start.scratch_directory(self._folder)
        output = f"{scratch}/record.json"
        grant = start.Grant(
            visible=self._program.visible,
            folder=self._folder,
            scratch_bytes=self._program.scratch_bytes,
            address_space=self._program.address_space,
            variables={"TMPDIR": scratch, **(self._program.variables or {})},
        )
        command = self._program.command(source, output)
        return start.running(self._program.role, command, grant, LIFE_SECONDS, self._log, (self._product, output))


class RecorderPool:
    """Keeps `spare` recorders waiting. One that has met a candidate never comes back. `program` is asked for when the
    first of them starts."""

    def __init__(self, program: Callable[[], RecorderProgram], spare: int = 0) -> None:
        self._program, self._spare = program, spare
        self._waiting: deque[RecorderProcess] = deque()
        self._lock = threading.Lock()
        self._closed = False

    def record(self, files: Files, subject: str, seconds: float) -> bytes | BuildFailure:
        return self._taken().record(files, subject, seconds)

    def refill(self) -> None:
        with self._lock:
            while not self._closed and len(self._waiting) < self._spare:
                self._waiting.append(RecorderProcess(self._program()))

    def close(self) -> None:
        with self._lock:
            self._closed = True
            waiting, self._waiting = self._waiting, deque()
        for process in waiting:
            process.close()

    def _taken(self) -> RecorderProcess:
        """The one that has waited longest, unless its time is over."""
        while True:
            with self._lock:
                process = self._waiting.popleft() if self._waiting else None
            if process is None:
                return RecorderProcess(self._program())
            if not process.ended:
                return process
            process.close()


def read_answer(content: bytes, form: TypeAdapter[_Answer], subject: str) -> _Answer | BuildFailure:
    """The answer as closed types, or what is wrong with it."""
    try:
        return form.validate_json(content)
    except ValidationError as error:
        lines = dict.fromkeys(entry["msg"].removeprefix("Value error, ") for entry in error.errors())
        return BuildFailure(tuple(printable(f"{subject}: {line}")[:LONGEST_LINE] for line in list(lines)[:LINES]))


def _cannot_record(error: OSError) -> CannotDecide:
    return CannotDecide(f"cannot record host code: {error.strerror}: {error.filename}")
