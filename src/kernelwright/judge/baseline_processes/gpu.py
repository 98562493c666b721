"""A baseline's process on a GPU: eager PyTorch, a variant of it, or torch.compile.

It is timed behind the same gate and flush as a candidate.

python -m kernelwright.judge.baseline_processes.gpu CHANNEL DEVICE KIND
"""

from __future__ import annotations

import gc
import importlib
import os
import socket
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

import torch

from kernelwright.contracts.layout import Layout, lay_out
from kernelwright.devices.driver import CudaFailure, use_device
from kernelwright.isolation.channel import Channel, ChannelClosed, Message
from kernelwright.judge.baseline_names import TRAINING, may_be_left_out
from kernelwright.judge.baseline_processes.cpu import with_own_code_object
from kernelwright.judge.baseline_processes.variants import UnfitError, flags, tried, variant
from kernelwright.judge.launcher.timed_queue import TimedQueue
from kernelwright.paths import cache_dir
from kernelwright.runtime.memory import DeviceBytes, Memory
from kernelwright.tasks.model import Pullback, Signature, Task, TensorSpec
from kernelwright.tasks.resolve import declared

WARM_UP = 3
HOLD_CYCLES = 2_000_000  # about a millisecond
LOOKS = 9  # calls by which one compile is held against another
AUTOTUNED = "max-autotune-no-cudagraphs"
MODES = {"compile": AUTOTUNED, "compile-best": AUTOTUNED, "compile-default": None, TRAINING: AUTOTUNED}
COMPILES = {"compile-best": 3, TRAINING: 2}
PreparedCall = Callable[[Sequence[Any]], Callable[[], Any]]
"""Takes the arguments, does what is not timed, and returns what is."""


class NoBackwardError(Exception):
    """A baseline of backwards was asked for something else."""


class GpuBaselineWorker:
    def __init__(self, kind: str, index: int, gate: int, helpers: bytes) -> None:
        self._kind, self._index = kind, index
        torch.cuda.set_device(index)
        torch.zeros((), device="cuda")  # torch makes the context, which the queue then shares
        self._queue = TimedQueue(use_device(index), helpers, gate)
        streams: Any = torch.cuda
        self._stream = streams.ExternalStream(int(self._queue.stream), device=index)
        self._tasks: dict[str, Task] = {}
        self._made: dict[str, PreparedCall] = {}
        self._memory: list[Memory] = []
        self._arguments: list[Any] = []
        self._outputs: list[torch.Tensor] = []
        self._call: PreparedCall = not_opened
        self.requests: dict[str, Callable[[Message, list[int], Channel], Message]] = {
            "open": self.open,
            "trial": self.trial,
            "write": self.write,
            "release": self.release,
        }

    def open(self, message: Message, descriptors: list[int], channel: Channel) -> Message:
        """Maps a workload's arena, which holds values already, and warms up, which may mean to compile."""
        reference = message["task"]
        if reference not in self._tasks:
            self._tasks[reference] = declared(reference)  # the oracle has tried it out
        self._map(message["signature"], descriptors)
        label = f"{reference} {message['signature']}"
        try:
            if label not in self._made:
                compiles = 1 if message["hidden"] else COMPILES.get(self._kind, 1)
                self._made[label] = self._best(self._tasks[reference], compiles)
            self._call = self._made[label]
            self._warm_up()
        except UnfitError as error:
            self._made.pop(label, None)
            self.release(message, [], channel)
            return {"unfit": str(error)}
        return {}

    def release(self, _: Message, __: list[int], ___: Channel) -> Message:
        """Forgets the workload: its mapping, and what torch keeps of results."""
        self._map([], [])
        self._call = not_opened
        gc.collect()
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
        return {}

    def _warm_up(self) -> None:
        with torch.cuda.stream(self._stream):
            for _ in range(WARM_UP):
                self._prepared()()
        torch.cuda.synchronize()

    def _best(self, task: Task, compiles: int) -> PreparedCall:
        """What is timed: the reference itself, or the fastest of several compiles that know nothing of each other.

        Autotuning chooses by a few noisy times, so that the same row can differ severalfold from compile to compile.
        Hidden workloads, which are other ones for each candidate, are compiled once.
        """
        if self._kind not in MODES:
            function = variant(self._kind, task)
            if may_be_left_out(self._kind):
                tried(function, partial(self._try, function))
            return whole(function)
        ready_to_compile()
        if compiles == 1:
            return self._compiled(task)
        found: list[tuple[float, PreparedCall]] = []
        for _ in range(compiles):
            with fresh_choices():
                self._call = self._compiled(task)
                self._warm_up()
                found.append((self._look(), self._call))
        return min(found, key=lambda pair: pair[0])[1]

    def _try(self, function: Callable[..., Any]) -> None:
        with torch.no_grad(), flags(self._kind), torch.cuda.stream(self._stream):
            function(*self._arguments)
        torch.cuda.synchronize()

    def _compiled(self, task: Task) -> PreparedCall:
        if self._kind != TRAINING:
            return whole(self._compile(task.reference))
        if task.pullback is None:
            raise NoBackwardError(f"{task.name} is not a derived backward, which {TRAINING} is for")
        return in_two_goes(task.pullback, self._compile(task.pullback.forward))

    def _look(self) -> float:
        """A rough time on the device, from clean caches, with a queue that is filled while it is held."""
        cuda: Any = torch.cuda
        seconds = []
        with cuda.stream(self._stream):
            for _ in range(LOOKS):
                call = self._prepared()
                self._queue.clean(0)
                start, end = cuda.Event(enable_timing=True), cuda.Event(enable_timing=True)
                cuda._sleep(HOLD_CYCLES)
                start.record()
                call()
                end.record()
                cuda.synchronize()
                seconds.append(float(start.elapsed_time(end)) / 1e3)
        return min(seconds)

    def _compile(self, reference: Callable[..., Any]) -> Callable[..., Any]:
        own = with_own_code_object(reference)
        compiled: Callable[..., Any] = torch.compile(own, dynamic=False, mode=MODES[self._kind])
        return compiled

    def _map(self, signature: list[Message], descriptors: list[int]) -> None:
        self._arguments, self._outputs = [], []
        for memory in self._memory:
            memory.close()
        self._memory = []
        specs = tuple(_spec(raw) for raw in signature if "value" not in raw)
        layout = lay_out(Signature(specs))
        views = {tensor.name: self._view(tensor, layout, descriptors.pop(0)) for tensor in specs}
        for raw in signature:
            if "value" in raw:
                self._arguments.append(raw["value"])
            elif raw["role"] == "output":
                self._outputs.append(views[raw["name"]])
            else:
                self._arguments.append(views[raw["name"]])

    def _view(self, tensor: TensorSpec, layout: Layout, descriptor: int) -> torch.Tensor:
        place = layout.named(tensor.name)
        memory = Memory.receive(descriptor, place.bytes)
        self._memory.append(memory)
        memory.map_anywhere(self._index)
        dtype = getattr(torch, tensor.dtype)
        if place.extent == 0:
            return torch.empty(tensor.shape, dtype=dtype, device="cuda")
        flat = torch.as_tensor(DeviceBytes(memory.base + place.offset, place.extent), device="cuda").view(dtype)
        return flat.as_strided(tensor.shape, tensor.strides)

    def _prepared(self) -> Callable[[], Any]:
        """A call on what the arena holds, with all done that is not timed."""
        with torch.no_grad(), flags(self._kind):
            call = self._call(self._arguments)

        def strict() -> Any:
            with torch.no_grad(), flags(self._kind):
                return call()

        return strict

    def trial(self, message: Message, _: list[int], channel: Channel) -> Message:
        """One timed call. Says `armed` when the queue waits for the word from outside."""
        with torch.cuda.stream(self._stream):
            call = self._prepared()
            self._queue.clean(message["word"])
            self._queue.arm(message["go"], message["done"], call)
        channel.send({"ok": {"armed": True}})
        seconds = self._queue.finish(channel)
        if self._queue.gave_up(message["go"]):
            raise CudaFailure("the gate", "the baseline waits for the GPU while its queue is being filled")
        return {"seconds": seconds}

    def write(self, _: Message, __: list[int], ___: Channel) -> Message:
        """Runs once and leaves the results in the arena, so that the oracle can check a baseline too."""
        with torch.cuda.stream(self._stream):
            result = self._prepared()()
            values = [result] if isinstance(result, torch.Tensor) else list(result or ())
            for target, value in zip(self._outputs, values, strict=True):
                target.copy_(value)
        torch.cuda.synchronize()
        return {}


def whole(function: Callable[..., Any]) -> PreparedCall:
    return lambda arguments: partial(function, *arguments)


def in_two_goes(pullback: Pullback, forward: Callable[..., Any]) -> PreparedCall:
    return lambda arguments: pullback.begin(forward, arguments)


def not_opened(_: Sequence[Any]) -> Callable[[], Any]:
    return lambda: None


@contextmanager
def fresh_choices() -> Iterator[None]:
    """Compiles inside of it choose anew: they find no graph and no choice of an earlier one.

    Triton's binaries, which are the same for the same source, stay: most of a compile's time goes into them.
    """
    utils: Any = importlib.import_module("torch._inductor.utils")
    make = getattr(utils, "fresh_cache", None) or utils.fresh_inductor_cache  # its name before torch 2.8
    with make():
        os.environ["TRITON_CACHE_DIR"] = str(cache_dir("triton"))  # put back by what surrounds it
        yield


def ready_to_compile() -> None:
    """Waits for the processes in which Triton compiles side by side; before they are there it does so one by one."""
    settings: Any = importlib.import_module("torch._inductor.config")
    pool: Any = importlib.import_module("torch._inductor.async_compile").AsyncCompile
    if hasattr(settings, "quiesce_async_compile_pool"):
        settings.quiesce_async_compile_pool = False
    if hasattr(pool, "wait_pool_ready"):
        with suppress(TimeoutError):
            pool.wait_pool_ready()


def _spec(raw: Message) -> TensorSpec:
    return TensorSpec(raw["name"], raw["dtype"], tuple(raw["shape"]), tuple(raw["strides"]), raw["role"])


def serve(channel: Channel, index: int, kind: str) -> None:
    _, (gate, content) = channel.receive()
    helpers = os.pread(content, os.fstat(content).st_size, 0)
    os.close(content)
    baseline = GpuBaselineWorker(kind, index, gate, helpers)
    channel.send({"ok": {}})
    gc.collect()
    gc.freeze()
    gc.disable()
    while True:
        message, descriptors = channel.receive()
        try:
            answer: Message = {"ok": baseline.requests[message["do"]](message, descriptors, channel)}
        except CudaFailure as failure:
            answer = {"fault": {"what": failure.what, "name": failure.name}}
        except NoBackwardError as error:
            answer = {"fault": {"what": str(error), "name": ""}}
        channel.send(answer)


def main() -> None:
    with suppress(ChannelClosed):  # the controller is done, or gone
        serve(Channel(socket.socket(fileno=int(sys.argv[1]))), int(sys.argv[2]), sys.argv[3])


if __name__ == "__main__":
    main()
