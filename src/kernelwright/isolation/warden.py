"""The controller's hand on the warden: start a process, time its trials, end it."""

from __future__ import annotations

import select
import signal
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import TracebackType

from kernelwright.errors import CannotDecide, MemoryEnded
from kernelwright.isolation.log import DrainedLog, Log
from kernelwright.isolation.native import program

END_SECONDS = 5.0  # for a warden to end what it guards


class Ending(StrEnum):
    """How a trial, or a whole program, ended."""

    ok = "ok"
    exited = "exited"
    killed = "killed"
    timeout = "timeout"
    ran_while_stopped = "ran-while-stopped"


@dataclass(frozen=True)
class Reply:
    ending: Ending
    value: int = 0  # nanoseconds if ok or if it ran while stopped, else the exit code or the signal
    cpu: int = 0
    reason: str = field(default="", kw_only=True)  # the verdict's reason, where the ending alone does not tell it

    @property
    def seconds(self) -> float:
        return self.value / 1e9

    def describe(self) -> str:
        if self.ending is Ending.killed:
            return f"killed by {signal_name(self.value)}"
        if self.ending is Ending.exited:
            return f"exited with code {self.value}"
        if self.ending is Ending.ran_while_stopped:
            return f"ran while stopped, for {self.value / 1e6:.2f} ms" if self.value else "did not stay stopped"
        return {Ending.timeout: "did not answer in time", Ending.ok: "ok"}[self.ending]


def signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _parse(line: str) -> Reply:
    word, *numbers = line.split()
    if word == "failed":
        raise CannotDecide(f"the warden could not start or time a process: {line.strip()}")
    if word == "taken":
        raise MemoryEnded(
            "the machine's memory ended, or another process killed a confined one "
            f"(which had {int(numbers[0]) / 2**20:.0f} MiB at most)"
        )
    return Reply(Ending(word), *map(int, numbers))


class WardedProcess:
    """A process under the warden: stopped except while a trial of it is under way."""

    def __init__(
        self,
        command: list[str],
        options: Iterable[str],
        keep: Iterable[int],
        environment: Mapping[str, str],
        start_seconds: float,
        log: DrainedLog | None = None,
    ) -> None:
        self.log: Log | DrainedLog = log or Log()
        kept = sorted(set(keep))
        self._process = subprocess.Popen(
            [
                *(str(program("warden")), "trial", *options),
                *("--keep", ",".join(map(str, kept)) or ",", "--log", str(self.log.fd)),
                *("--milliseconds", str(int(start_seconds * 1000)), "--", *command),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            pass_fds=[*kept, self.log.fd],
            env=dict(environment),
            bufsize=0,
            start_new_session=True,  # Ctrl-C reaches the controller alone, which ends the others in order
        )
        self._patience = start_seconds
        self.alive = True

    def ready(self) -> Reply:
        """The answer to its start: `ok`, or how it failed. To be read once."""
        return self._answer(self._patience + 5)

    def trial(self, op: str, deadline: float) -> Reply:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(f"trial {op} {int(deadline * 1e6)}\n".encode())
        except BrokenPipeError as error:
            raise CannotDecide("the warden of a trial is gone") from error
        return self._answer(deadline + 5)

    def _answer(self, patience: float) -> Reply:
        assert self._process.stdout is not None
        readable, _, _ = select.select([self._process.stdout], [], [], patience)
        line = self._process.stdout.readline().decode() if readable else ""
        if not line:
            state = self._process.poll()
            self.close()
            said = self.log.text().strip()[-300:] or "no message"
            raise CannotDecide(f"the warden did not answer within {patience:.0f} s (its exit code: {state}): {said}")
        self.alive = False  # which it stays if there is no reply in this line
        reply = _parse(line)
        self.alive = reply.ending is Ending.ok
        return reply

    def close(self) -> None:
        """Ends the process and everything of it; returns when it is gone."""
        if self._process.stdin:
            self._process.stdin.close()
        try:
            self._process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.stdout:
            self._process.stdout.close()
        self.alive = False

    def __enter__(self) -> WardedProcess:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.close()
        self.log.close()


def run_to_end(
    command: list[str],
    options: Iterable[str],
    environment: Mapping[str, str],
    seconds: float,
    log: Log,
    output: tuple[int, str] | None = None,
) -> Reply:
    """Runs a program to its end under the warden; `output` names the file it makes and where to copy it."""
    return RunningProgram(command, options, environment, seconds, log, output).reply()


class RunningProgram:
    """A program that runs to its end under the warden, within `seconds`."""

    def __init__(
        self,
        command: list[str],
        options: Iterable[str],
        environment: Mapping[str, str],
        seconds: float,
        log: Log,
        output: tuple[int, str] | None = None,
    ) -> None:
        extra = ["--output", str(output[0]), "--output-path", output[1]] if output else []
        self._process = subprocess.Popen(
            [
                *(str(program("warden")), "run", *options, *extra, "--log", str(log.fd)),
                *("--milliseconds", str(int(seconds * 1000)), "--", *command),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            pass_fds=[log.fd, *([output[0]] if output else [])],
            env=dict(environment),
            start_new_session=True,
        )

    @property
    def ended(self) -> bool:
        assert self._process.stdout is not None
        return bool(select.select([self._process.stdout], [], [], 0)[0])

    def reply(self, seconds: float | None = None) -> Reply:
        """How it ended. One that has not done so within `seconds` from now is ended."""
        assert self._process.stdout is not None
        try:
            if seconds is not None and not select.select([self._process.stdout], [], [], seconds)[0]:
                return Reply(Ending.timeout)
            answer = self._process.stdout.read().decode()
        finally:
            self.close()
        return _parse(answer) if answer.strip() else Reply(Ending.exited, self._process.returncode)

    def close(self) -> None:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()  # how the warden learns that we are gone
        self._process.stdout.close()
        try:
            self._process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
