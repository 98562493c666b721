"""A baseline's process: eager PyTorch, a variant of it, or torch.compile, timed by the warden exactly as a runner is.

Commands come on its channel when the warden sends `o` (open a workload), and are answered there: whether this baseline
can do the task; `r` runs the reference once on what the
arena holds; `w` writes the results of one run into the arena, so that the oracle can check a baseline too; `n` does
nothing, so that it is known what a trial costs beside the reference in this very process; `f` gives memory back.
"""

from __future__ import annotations

import ctypes
import gc
import mmap
import os
import socket
import sys
import types
import warnings
from collections.abc import Callable
from typing import Any

import torch

from kernelwright.contracts.layout import WRITABLE_ROLES
from kernelwright.isolation.channel import Channel, Message
from kernelwright.judge.arena import region_of
from kernelwright.judge.baseline_names import may_be_left_out
from kernelwright.judge.baseline_processes.variants import UnfitError, tried, variant
from kernelwright.tasks.model import Task, TensorSpec
from kernelwright.tasks.resolve import declared


class CpuBaselineWorker:
    def __init__(self, kind: str, channel: Channel) -> None:
        self._kind, self._channel = kind, channel
        self._tasks: dict[str, Task] = {}
        self._arguments: list[Any] = []
        self._outputs: list[torch.Tensor] = []
        self._function: Callable[..., Any] = lambda: None
        self._opened: dict[str, Callable[..., Any]] = {}

    def open(self) -> None:
        """Maps a workload's arena and, for torch.compile, compiles for its shapes."""
        message, descriptors = self._channel.receive()
        reference = message["task"]
        if reference not in self._tasks:
            self._tasks[reference] = declared(reference)  # the oracle has tried it out
        self._map(message["signature"], descriptors)
        label = f"{reference} {message['signature']}"
        try:
            if label not in self._opened:
                self._opened[label] = self._make(self._tasks[reference])
            self._function = self._opened[label]
            if may_be_left_out(self._kind):
                tried(self._function, self.run)
            for _ in range(2):
                self.run()
        except UnfitError as error:
            self._opened.pop(label, None)
            self.release()
            self._channel.send({"unfit": str(error)})
        else:
            self._channel.send({"unfit": ""})

    def _make(self, task: Task) -> Callable[..., Any]:
        if self._kind == "compile":
            return torch.compile(with_own_code_object(task.reference), dynamic=False)
        return variant(self._kind, task)

    def _map(self, signature: list[Message], descriptors: list[int]) -> None:
        self._arguments, self._outputs = [], []
        files = iter(descriptors)
        for raw in signature:
            if "value" in raw:
                self._arguments.append(raw["value"])
                continue
            tensor = TensorSpec(raw["name"], raw["dtype"], tuple(raw["shape"]), tuple(raw["strides"]), raw["role"])
            view = _map_tensor(tensor, next(files))
            (self._outputs if tensor.role == "output" else self._arguments).append(view)

    def run(self) -> Any:
        with torch.no_grad():
            return self._function(*self._arguments)

    def release(self) -> None:
        """Forgets the workload, and gives the system back what results left behind."""
        self._arguments, self._outputs = [], []
        self._function = lambda: None
        gc.collect()
        ctypes.CDLL(None).malloc_trim(0)

    def nothing(self) -> None:
        """An empty trial."""

    def write(self) -> None:
        result = self.run()
        values = [result] if isinstance(result, torch.Tensor) else list(result or ())
        for target, value in zip(self._outputs, values, strict=True):
            target.copy_(value)


def with_own_code_object(function: Callable[..., Any]) -> Callable[..., Any]:
    """A copy that shares no compiled code: torch.compile keeps what it compiled per code object, tries the guards of
    all of them on every call, and gives up on compiling after a few shapes."""
    if not isinstance(function, types.FunctionType):
        return lambda *arguments: function(*arguments)
    copy = types.FunctionType(
        function.__code__.replace(),
        function.__globals__,
        function.__name__,
        function.__defaults__,
        function.__closure__,
    )
    copy.__kwdefaults__ = function.__kwdefaults__
    return copy


def _map_tensor(tensor: TensorSpec, fd: int) -> torch.Tensor:
    region = region_of(tensor)
    writable = tensor.role in WRITABLE_ROLES
    protection = mmap.PROT_READ | mmap.PROT_WRITE if writable else mmap.PROT_READ
    memory = mmap.mmap(fd, region.bytes, flags=mmap.MAP_SHARED | mmap.MAP_POPULATE, prot=protection)
    os.close(fd)
    dtype = getattr(torch, tensor.dtype)
    if region.extent == 0:
        return torch.empty(tensor.shape, dtype=dtype)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that the memory is read-only is the point
        flat = torch.frombuffer(memory, dtype=dtype, offset=region.offset, count=region.extent // dtype.itemsize)
    return flat.as_strided(tensor.shape, tensor.strides)


def main() -> None:
    go, done, channel_fd, kind, threads = *map(int, sys.argv[1:4]), sys.argv[4], int(sys.argv[5])
    torch.set_num_threads(threads)
    baseline = CpuBaselineWorker(kind, Channel(socket.socket(fileno=channel_fd)))
    handlers: dict[bytes, Callable[[], Any]] = {
        b"o": baseline.open,
        b"r": baseline.run,
        b"w": baseline.write,
        b"n": baseline.nothing,
        b"f": baseline.release,
    }
    gc.collect()
    gc.freeze()
    gc.disable()
    os.write(done, b"d")
    while op := os.read(go, 1):
        handlers[op]()
        os.write(done, b"d")


if __name__ == "__main__":
    main()
