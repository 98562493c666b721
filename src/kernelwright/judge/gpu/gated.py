"""A process whose calls on the GPU are timed from here: it fills its queue behind a gate, we open the gate and watch.

Launchers and baselines are both timed this way, by the same code on both sides (see judge/launcher/timed_queue.py).
"""

from __future__ import annotations

import mmap
import os
import re
import secrets
import select
import signal
import subprocess
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from types import TracebackType
from typing import Self

from kernelwright.errors import CannotDecide
from kernelwright.isolation import start
from kernelwright.isolation.channel import ChannelClosed, Message, pair
from kernelwright.isolation.levels import Level
from kernelwright.isolation.log import Log, ToolReport
from kernelwright.isolation.roles import Role
from kernelwright.isolation.warden import signal_name
from kernelwright.judge.launcher.timed_queue import (
    DONE,
    GATE_BYTES,
    GATE_NOT_OPENED,
    GO,
    LIBRARY_FAILED,
    LIBRARY_REFUSED,
    LIBRARY_WAITS,
    READY,
)

START_SECONDS = 60.0
ANSWER_SECONDS = 30.0
END_SECONDS = 30.0
CLOSE_SECONDS = 5.0
KILL_SECONDS = 20.0  # the driver takes that long to end a kernel, and a process that it keeps longer is left behind
LOOK_SECONDS = 0.005  # how often a wait for the gate looks whether the process has something else to say


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
    """The process is of no use any more. `message` is the driver's word, not the candidate's."""

    def __init__(self, kind: FaultKind, message: str) -> None:
        super().__init__(f"{kind}: {message}")
        self.kind, self.message = kind, message


@dataclass(frozen=True)
class Timing:
    """One call by three clocks. `device`: the driver's events. `outside`: this process's, from the opened gate to the
    word done in shared memory. `answer`: this process's, from the opened gate to the launcher's word on its channel."""

    device: float
    outside: float
    answer: float


_ENDING = re.compile(r"(exited|killed) \d+")
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


CANNOT_TIME = {
    LIBRARY_REFUSED: "cannot be carried out between launches",
    LIBRARY_FAILED: "was not carried out, though it was recorded",
    LIBRARY_WAITS: "waits for the GPU, or for the host, while a call is being prepared",
}
_MACHINES = frozenset(
    f"CUDA_ERROR_{name}"
    for name in (
        *("ECC_UNCORRECTABLE", "NVLINK_UNCORRECTABLE", "SYSTEM_NOT_READY", "NO_DEVICE"),
        *("SYSTEM_DRIVER_MISMATCH", "DEVICE_UNAVAILABLE", "DEVICE_NOT_LICENSED", "NOT_INITIALIZED"),
    )
)
"""What no kernel can bring about. HARDWARE_STACK_ERROR is not among them: a runaway recursion may."""


class GatedProcess:
    """Starts the process and sends it the gate and the helper kernels; it gets ready while the caller goes on.

    `patient` lets it end by itself after a fault, so that a sanitizer around it reports. `level` is what `start` takes.
    `output` takes its standard output in place of the log. One that is `held` does not touch the device before `begin`.
    """

    def __init__(
        self,
        role: Role,
        command: Sequence[str],
        grant: start.Grant,
        helpers: bytes,
        *,
        level: Level | None = None,
        patient: bool = False,
        output: ToolReport | None = None,
        held: bool = False,
    ) -> None:
        self.log = Log()
        self._patient = patient
        self._warded = (level or start.level_of(role)) is not Level.none
        gate = memory_file(bytes(GATE_BYTES))
        self._gate = mmap.mmap(gate, GATE_BYTES)
        self._setup = [gate, memory_file(helpers)]
        self._channel, theirs = pair()
        with theirs:
            self._process = start.serving(role, command, grant, theirs.fileno(), output or self.log, level=level)
        self._started = False
        if not held:
            self.begin()

    def begin(self) -> None:
        """Sends what the process needs to set up its device, once; it does so while the caller goes on."""
        setup, self._setup = self._setup, []
        if setup:
            try:
                self._ask({"do": "start"}, setup)
            finally:
                close_all(setup)

    def _start(self) -> None:
        """Waits for the answer to the start, once."""
        if not self._started:
            self.begin()
            self._answer(START_SECONDS)
            self._started = True

    def _gated(self, request: Message, deadline: float) -> tuple[Message, Timing]:
        """Has one call armed, opens the gate and times it. The message is what the process says of it."""
        self._start()
        go, done = secrets.randbits(64) | 1, secrets.randbits(64) | 1
        self._ask({**request, "go": go, "done": done})
        self._answer(ANSWER_SECONDS)
        begin, outside = self._pass_gate(go, done, deadline)
        self._answer(deadline)  # that the whole queue is over
        answered = time.perf_counter() - begin
        message = self._answer(deadline)
        return message, Timing(float(message["seconds"]), outside, answered)

    def _pass_gate(self, go: int, done: int, deadline: float) -> tuple[float, float]:
        """Waits until the queue stands at the gate, opens it, and waits until the call behind it is done. When it was
        opened, and how long the call took."""
        words = memoryview(self._gate).cast("Q")
        self._spin(words, READY, go, ANSWER_SECONDS)
        begin = time.perf_counter()
        words[GO // 8] = go
        self._spin(words, DONE, done, deadline)
        return begin, time.perf_counter() - begin

    def _spin(self, words: memoryview, offset: int, wanted: int, deadline: float) -> None:
        """Returns when the word is there, or the process has a fault to tell. Never sleeps: microseconds count."""
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

    def _ask(self, message: Message, descriptors: Sequence[int] = ()) -> None:
        try:
            self._channel.send(message, list(descriptors))
        except ChannelClosed:
            raise self._gone() from None

    def _readable(self, seconds: float) -> bool:
        return bool(select.select([self._channel.fd], [], [], seconds)[0])

    def _answer(self, patience: float) -> Message:
        answer, descriptors = self._answer_with_descriptors(patience)
        for descriptor in descriptors:
            os.close(descriptor)
        return answer

    def _answer_with_descriptors(self, patience: float) -> tuple[Message, list[int]]:
        if not self._readable(patience):
            raise self._fault(FaultKind.timed_out, f"no answer within {patience:g} s")
        try:
            answer, descriptors = self._channel.receive()
        except ChannelClosed:
            raise self._gone() from None
        if "fault" in answer:
            what, name = str(answer["fault"]["what"]), str(answer["fault"]["name"])
            if name == GATE_NOT_OPENED:  # the call has not begun then: this process opens the gate
                self.close()
                raise CannotDecide("the gate of a timed call was not opened in time: the machine is too busy")
            if name in _MACHINES:
                self.close()
                raise CannotDecide(f"the GPU or its driver is at fault, not the candidate: {what}: {name}")
            if name in CANNOT_TIME:
                self.close()
                raise CannotDecide(f"cannot be timed: {what} {CANNOT_TIME[name]}")
            raise self._fault(_KINDS.get(name, FaultKind.device_fault), f"{what}: {name}")
        return dict(answer["ok"]), descriptors

    def _gone(self) -> Faulted:
        try:
            code = self._process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:  # a tool that has lost its process and does not end
            return self._fault(FaultKind.timed_out, "the process ended, and the tool around it did not")
        how = signal_name(-code) if code < 0 else f"exit code {code}"
        lines = self.log.text().strip().splitlines()
        if lines and _ENDING.fullmatch(lines[-1]):  # the warden's word on the process that it started
            how = lines.pop().replace("exited", "exit code")
        return self._fault(FaultKind.gone, f"the process ended ({how}) {lines[-1] if lines else ''}".strip())

    def _fault(self, kind: FaultKind, message: str) -> Faulted:
        if self._patient and kind is not FaultKind.timed_out:
            self.end(END_SECONDS)
        else:
            self.close()
        return Faulted(kind, message)

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def end(self, patience: float) -> None:
        """Lets the process end by itself."""
        self._channel.close()
        try:
            self._process.wait(patience)
        except subprocess.TimeoutExpired:
            self.close()

    def close(self) -> None:
        """Ends the process; the driver takes a running kernel down with it. Returns when it is gone, or when it has had
        its time to go: no caller waits longer for a process that the kernel of the system does not let end."""
        close_all(self._setup)
        self._setup = []
        self._channel.close()
        if self._process.stdin:
            self._process.stdin.close()  # a warden ends all of its process when its caller is gone
        try:
            self._process.wait(CLOSE_SECONDS if self._warded else 0)
        except subprocess.TimeoutExpired:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)  # a sanitizer has the launcher for a child
            try:
                self._process.wait(KILL_SECONDS)
            except subprocess.TimeoutExpired:
                threading.Thread(target=self._process.wait, name="reaper", daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.close()
        self.log.close()


def close_all(descriptors: Sequence[int]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)


def memory_file(content: bytes) -> int:
    descriptor = os.memfd_create("content", os.MFD_CLOEXEC)
    os.write(descriptor, content)
    return descriptor
