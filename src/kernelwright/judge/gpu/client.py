"""The controller's hand on a launcher: start it, send it a program, time its calls from outside, end it."""

from __future__ import annotations

import mmap
import os
import secrets
import select
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from types import TracebackType

from kernelwright.errors import CannotDecide
from kernelwright.judge.channel import ChannelClosed, Message, pair
from kernelwright.judge.gpu.program import FunctionUse, Program
from kernelwright.judge.gpu.stage import DONE, GATE_BYTES, GO, READY
from kernelwright.judge.sandbox import clean_environment
from kernelwright.judge.warden import Log, signal_name

START_SECONDS = 30.0
OPEN_SECONDS = 30.0
END_SECONDS = 30.0
LOOK_SECONDS = 0.005  # how often a wait for the gate looks whether the launcher has something else to say
_KEPT_VARIABLES = ("LD_LIBRARY_PATH", "PYTHONPATH", "CUDA_VISIBLE_DEVICES", "CUDA_HOME", "CUDA_PATH")


class FaultKind(StrEnum):
    """How a launcher ended, as far as the candidate is concerned."""

    does_not_load = "does_not_load"
    bad_arguments = "bad_arguments"
    launch_failed = "launch_failed"
    illegal_access = "illegal_access"
    device_fault = "device_fault"
    out_of_memory = "out_of_memory"
    timed_out = "timed_out"
    dirty_workspace = "dirty_workspace"
    gone = "gone"


class Faulted(Exception):  # noqa: N818 - it names an outcome
    """The launcher is of no use any more. `message` is the driver's word, not the candidate's."""

    def __init__(self, kind: FaultKind, message: str) -> None:
        super().__init__(f"{kind}: {message}")
        self.kind, self.message = kind, message


@dataclass(frozen=True)
class Timing:
    """One call by two clocks: the device's own events, and this process's from the opened gate to the word done."""

    device: float
    outside: float


_KINDS = {
    "BAD_ARGUMENTS": FaultKind.bad_arguments,
    "CUDA_ERROR_ILLEGAL_ADDRESS": FaultKind.illegal_access,
    "CUDA_ERROR_MISALIGNED_ADDRESS": FaultKind.illegal_access,
    "CUDA_ERROR_INVALID_ADDRESS_SPACE": FaultKind.illegal_access,
    "CUDA_ERROR_OUT_OF_MEMORY": FaultKind.out_of_memory,
    "CUDA_ERROR_INVALID_VALUE": FaultKind.launch_failed,
    "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES": FaultKind.launch_failed,
    "CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE": FaultKind.launch_failed,
    "CUDA_ERROR_INVALID_CLUSTER_SIZE": FaultKind.launch_failed,
    "CUDA_ERROR_NOT_FOUND": FaultKind.does_not_load,
    "CUDA_ERROR_INVALID_IMAGE": FaultKind.does_not_load,
    "CUDA_ERROR_NO_BINARY_FOR_GPU": FaultKind.does_not_load,
}


class LauncherProcess:
    """A fresh process for one candidate. Between trials it has nothing to run."""

    def __init__(self, helpers: bytes, index: int = 0, prefix: Sequence[str] = ()) -> None:
        """`prefix` is a command that runs another one: a sanitizer. The launcher starts while the caller goes on."""
        self.log = Log()
        self._wrapped = bool(prefix)
        gate = os.memfd_create("gate", os.MFD_CLOEXEC)
        os.ftruncate(gate, GATE_BYTES)
        self._gate = mmap.mmap(gate, GATE_BYTES)
        self._channel, theirs = pair()
        with theirs:
            self._process = subprocess.Popen(
                [*prefix, sys.executable, "-m", "kernelwright.judge.gpu.launcher", str(theirs.fileno()), str(index)],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=self.log.fd,
                stderr=self.log.fd,
                env=_environment(),
                start_new_session=True,
            )
        content = _memory_file(helpers)
        self._channel.send({"do": "start"}, [gate, content])
        os.close(gate)
        os.close(content)
        self._started = False

    def open(
        self, program: Program, modules: Sequence[bytes], descriptors: Sequence[int], *, exact: bool = False
    ) -> tuple[FunctionUse, ...]:
        """Maps the arena and loads the modules; `exact` is for sanitizers. The descriptors stay the caller's."""
        self._start()
        files = [_memory_file(module) for module in modules]
        try:
            self._channel.send({"do": "open", "program": program.to_json(), "exact": exact}, [*files, *descriptors])
        except ChannelClosed:
            raise self._gone() from None
        finally:
            for file in files:
                os.close(file)
        answer = self._answer(OPEN_SECONDS)
        return tuple(FunctionUse(**use) for use in answer["uses"])

    def _start(self) -> None:
        if not self._started:
            try:
                self._answer(START_SECONDS)
            except Faulted as fault:
                raise CannotDecide(f"the launcher did not start: {fault.message}") from fault
            self._started = True

    def trial(self, word: int, deadline: float, *, empty: bool = False) -> Timing:
        """One timed call. `word` is a fresh pattern for everything that is poisoned."""
        self._start()
        go, done = secrets.randbits(64) | 1, secrets.randbits(64) | 1
        self._ask({"do": "trial", "go": go, "done": done, "word": word, "empty": empty})
        self._answer(OPEN_SECONDS)
        outside = self._pass_gate(go, done, deadline)
        answer = self._answer(deadline)
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

    def _pass_gate(self, go: int, done: int, deadline: float) -> float:
        """Waits until the queue stands at the gate, opens it, and waits until the call behind it is done."""
        words = memoryview(self._gate).cast("Q")
        self._spin(words, READY, go, OPEN_SECONDS)
        begin = time.perf_counter()
        words[GO // 8] = go
        self._spin(words, DONE, done, deadline)
        return time.perf_counter() - begin

    def _spin(self, words: memoryview, offset: int, wanted: int, deadline: float) -> None:
        """Returns when the word is there, or the launcher has a fault to tell. Never sleeps: microseconds count."""
        at = offset // 8
        begin = look = time.perf_counter()
        while words[at] != wanted:
            now = time.perf_counter()
            if now < look + LOOK_SECONDS:
                continue
            look = now
            if now > begin + deadline:
                raise self._fault(FaultKind.timed_out, f"the call was not done within {deadline:g} s")
            if self._readable(0):
                return

    def _ask(self, message: Message) -> None:
        try:
            self._channel.send(message)
        except ChannelClosed:
            raise self._gone() from None

    def _readable(self, seconds: float) -> bool:
        return bool(select.select([self._channel.fd], [], [], seconds)[0])

    def _answer(self, patience: float) -> Message:
        if not self._readable(patience):
            raise self._fault(FaultKind.timed_out, f"no answer within {patience:g} s")
        try:
            answer, _ = self._channel.receive()
        except ChannelClosed:
            raise self._gone() from None
        if "fault" in answer:
            what, name = str(answer["fault"]["what"]), str(answer["fault"]["name"])
            raise self._fault(_KINDS.get(name, FaultKind.device_fault), f"{what}: {name}")
        return dict(answer["ok"])

    def _gone(self) -> Faulted:
        code = self._process.wait()
        how = signal_name(-code) if code < 0 else f"exit code {code}"
        said = self.log.text().strip().splitlines()
        return self._fault(FaultKind.gone, f"the launcher ended ({how}) {said[-1] if said else ''}".strip())

    def _fault(self, kind: FaultKind, message: str) -> Faulted:
        if self._wrapped and kind is not FaultKind.timed_out:
            self.end(END_SECONDS)
        else:
            self.close()
        return Faulted(kind, message)

    def end(self, patience: float) -> None:
        """Lets the process end by itself, so that a sanitizer around it reports."""
        self._channel.close()
        try:
            self._process.wait(patience)
        except subprocess.TimeoutExpired:
            self.close()

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def close(self) -> None:
        """Ends the process; the driver takes a running kernel down with it. Returns when it is gone."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)  # a sanitizer has the launcher for a child
        self._process.wait()
        self._channel.close()

    def __enter__(self) -> LauncherProcess:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.close()
        self.log.close()


def _memory_file(content: bytes) -> int:
    descriptor = os.memfd_create("content", os.MFD_CLOEXEC)
    os.write(descriptor, content)
    return descriptor


def _environment() -> dict[str, str]:
    kept = {name: os.environ[name] for name in _KEPT_VARIABLES if name in os.environ}
    path = os.pathsep.join([*(p for p in sys.path if p), *filter(None, [kept.pop("PYTHONPATH", "")])])
    return clean_environment(**kept, PYTHONPATH=path)
