"""The process that runs a candidate on a GPU: our launcher, and no host code of the candidate's.

It holds no answers and no key. It maps what it is sent, replays a program made of data, and says what the device
said. Whatever a kernel breaks ends with this process.

    python -m kernelwright.judge.launcher.launcher CHANNEL DEVICE [untimed]

`with_torch` is the same launcher with torch beside it, for programs with steps that torch carries out.
"""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from typing import Any

from kernelwright.contracts.program import Block, Program
from kernelwright.devices.driver import CudaFailure, check, driver, use_device
from kernelwright.isolation.channel import Channel, ChannelClosed, Message
from kernelwright.judge.launcher.copies import APART, UNTIMED, ExactCopies
from kernelwright.judge.launcher.kept_results import KeptResults
from kernelwright.judge.launcher.timed_queue import GATE_NOT_OPENED, LIBRARY_WAITS, TimedQueue
from kernelwright.judge.launcher.warm_up import warm_up
from kernelwright.runtime.launch import BadArguments, LibrarySteps, LoadedProgram
from kernelwright.runtime.memory import Memory, reserve

TAKEN = "the address space of the arena is taken"
MakeSteps = Callable[[Program, Any], LibrarySteps]


class Launcher:
    """`steps` makes what carries out the steps of a program that are torch's, from it and a stream."""

    def __init__(self, index: int, gate: int, helpers: bytes, steps: MakeSteps | None = None) -> None:
        self._index, self._steps = index, steps
        self._device = use_device(index)
        self._queue = TimedQueue(self._device, helpers, gate)
        self._reserved = 0
        self._memory: list[Memory] = []
        self._copies: ExactCopies | None = None
        self._program = Program(0, 0, (), ())
        self._loaded: LoadedProgram | None = None
        self._library: LibrarySteps | None = None
        self.descriptors: list[int] = []  # to go with the next answer
        self.requests: dict[str, Callable[[Message, list[int], Channel], Message]] = {
            "open": self.open,
            "trial": self.trial,
            "run": self.run,
            "keep": self.keep,
            "well": self.well,
        }

    def open(self, message: Message, descriptors: list[int], _: Channel) -> Message:
        """Maps a workload's memory at its fixed addresses, loads the modules and checks the arguments.

        With `exact` the kernels work on copies in ordinary allocations (see `copies`).
        """
        self.close()
        self._program = Program.from_json(message["program"])
        cubins = [_content(descriptors.pop(0)) for _ in range(self._program.modules)]
        addresses, stream = [block.address for block in self._program.blocks], self._queue.stream
        if message["exact"] == APART:
            self._queue.let_go()
            stream = 0
            self._copies = ExactCopies(self._program, self._index, stream, self._receive(descriptors))
        else:
            self._map(descriptors)
            if message["exact"]:
                self._copies = ExactCopies(self._program, self._index, stream, {})
        if self._copies is not None:
            addresses = self._copies.addresses
        if self._steps is not None and self._program.library:
            self._library = self._steps(self._program, stream)
        self._loaded = LoadedProgram(self._program, cubins, self._index, self._library)
        self._loaded.check_arguments()
        if self._library is not None and self._copies is None:
            warm_up(self._loaded, self._program, stream)
        self._loaded.bind(addresses, stream)
        return {"uses": [asdict(use) for use in self._loaded.uses()]}

    def _receive(self, descriptors: list[int]) -> dict[str, Memory]:
        """The oracle's allocations, not mapped yet."""
        found: dict[str, Memory] = {}
        for block in self._program.blocks:
            if block.shared:
                found[block.name] = Memory.receive(descriptors.pop(0), block.bytes)
                self._memory.append(found[block.name])
        return found

    def _map(self, descriptors: list[int]) -> None:
        if not self._reserved:
            self._reserved = reserve(self._program.span, self._program.base)
            if self._reserved != self._program.base:
                raise CudaFailure(TAKEN, f"got {self._reserved:#x}")
        for block in self._program.blocks:
            if block.shared:
                memory = Memory.receive(descriptors.pop(0), block.bytes)
            else:
                memory = Memory.create(block.bytes, self._index, exportable=False)
            self._memory.append(memory)
            memory.map(block.base, self._index, writable=block.writable)

    def trial(self, message: Message, _: list[int], channel: Channel) -> Message:
        """One timed call. Says `armed` when the queue waits for the word from outside."""
        go, done, word = message["go"], message["done"], message["word"]
        self._prepare(word)
        self._queue.renew()
        self._queue.clean(word)
        self._queue.arm(go, done, self._queue.empty if message["empty"] else self._enqueue)
        if self._program.library and self._queue.gave_up(go):
            raise CudaFailure(f"torch's {', '.join(self._program.library)}", LIBRARY_WAITS)
        channel.send({"ok": {"armed": True}})
        seconds = self._queue.finish(channel)
        if self._queue.gave_up(go):
            raise CudaFailure("the gate of a timed call", GATE_NOT_OPENED)
        return {"seconds": seconds, "dirty": self._dirty()}

    def run(self, message: Message, _: list[int], __: Channel) -> Message:
        """One call without clocks, on the arena or on exact copies. With `filled` every byte that the kernels have to
        write, outputs included, is one of `word` before."""
        assert self._loaded is not None
        if self._copies is not None:
            self._copies.put_in()
            self._enqueue()
            self._loaded.wait()
            self._copies.take_out()
            return {"dirty": []}
        self._prepare(message["word"])
        if message["filled"]:
            self._fill_outputs(message["word"] & 0xFF)
        self._enqueue()
        self._loaded.wait()
        return {"dirty": self._dirty()}

    def keep(self, _: Message, __: list[int], ___: Channel) -> Message:
        """One call on copies. A descriptor of what torch's steps gave goes with the answer, and nothing into the
        arena."""
        assert self._loaded is not None and self._copies is not None
        kept = KeptResults(self._program, self._index, self._queue.stream)
        self._memory.append(kept.memory)
        self._copies.put_in()
        loaded = self._loaded
        loaded.enqueue(zero=False, after_library=lambda step: kept.keep(step, loaded.addresses))
        loaded.wait()
        self.descriptors.append(kept.memory.descriptor())
        return {}

    def _fill_outputs(self, byte: int) -> None:
        """Their contents alone: in the slack around them are canaries."""
        for block in self._program.blocks:
            if block.fill == "output" and block.extent:
                answer = driver().cuMemsetD8Async(block.address, byte, block.extent, self._queue.stream)
                check(answer, "cuMemsetD8Async")

    def well(self, _: Message, __: list[int], ___: Channel) -> Message:
        return {"well": self._queue.well()}

    def _prepare(self, word: int) -> None:
        """Puts back all that a call may have changed outside its outputs."""
        if self._loaded is not None:
            self._loaded.load()
        for block in self._program.blocks:
            if block.fill in ("poison", "zero"):
                self._fill(block, word)
            elif block.fill == "workspace":
                self._fill(block, 0)

    def _enqueue(self) -> None:
        assert self._loaded is not None
        self._loaded.enqueue(zero=self._copies is None)  # copies are zeroed when values are put into them

    def _fill(self, block: Block, word: int) -> None:
        answer = driver().cuMemsetD32Async(block.base, word, block.bytes // 4, self._queue.stream)
        check(answer, "cuMemsetD32Async")

    def _dirty(self) -> list[str]:
        """Workspaces that were not left zero."""
        names = []
        for block in self._program.blocks:
            if block.fill == "workspace":
                found = bytearray(block.extent)
                check(driver().cuMemcpyDtoH(found, block.address, block.extent), "cuMemcpyDtoH")
                if any(found):
                    names.append(block.name)
        return names

    def close(self) -> None:
        if self._loaded is not None:
            self._loaded.unload()
            self._loaded = None
        if self._library is not None:
            self._library.close()
            self._library = None
        for memory in self._memory:
            memory.close()
        self._memory.clear()
        if self._copies is not None:
            self._copies.close()
            self._copies = None


def _content(descriptor: int) -> bytes:
    try:
        return os.pread(descriptor, os.fstat(descriptor).st_size, 0)
    finally:
        os.close(descriptor)


def _answer(launcher: Launcher, message: Message, descriptors: list[int], channel: Channel) -> Message:
    try:
        return {"ok": launcher.requests[message["do"]](message, descriptors, channel)}
    except CudaFailure as failure:
        return {"fault": {"what": failure.what, "name": failure.name}}
    except BadArguments as error:
        return {"fault": {"what": str(error), "name": "BAD_ARGUMENTS"}}


def serve(channel: Channel, index: int, steps: MakeSteps | None = None) -> None:
    message, descriptors = channel.receive()
    assert message["do"] == "start"
    try:
        launcher = Launcher(index, descriptors[0], _content(descriptors[1]), steps)
    except CudaFailure as failure:
        channel.send({"fault": {"what": failure.what, "name": failure.name}})
        return
    channel.send({"ok": {}})
    while True:
        answer: dict[str, Any] = _answer(launcher, *channel.receive(), channel)
        channel.send(answer, launcher.descriptors)
        while launcher.descriptors:
            os.close(launcher.descriptors.pop())
        if "fault" in answer:  # the context is not to be trusted any more
            return


def main() -> None:
    if UNTIMED not in sys.argv[3:]:
        os.environ["CUDA_MODULE_LOADING"] = "EAGER"  # else the first launch would load, inside the timed window
    os.environ["CUDA_CACHE_DISABLE"] = "1"
    driver()  # imported while a launcher that is held waits; the device is not touched by that
    with suppress(ChannelClosed):  # the controller is done, or gone
        serve(Channel(socket.socket(fileno=int(sys.argv[1]))), int(sys.argv[2]))


if __name__ == "__main__":
    main()
