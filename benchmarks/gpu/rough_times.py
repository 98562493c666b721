"""Rough times of kernels that we wrote ourselves, in one process: for choosing which of many to judge."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from kernelwright.contracts.model import GpuBuilt
from kernelwright.devices.driver import CudaFailure, use_device
from kernelwright.runtime.launch import BadArguments, LoadedProgram
from kernelwright.tasks.declarations import Family
from kernelwright.tasks.drawing import draw_inputs, run_reference
from kernelwright.tasks.resolve import resolve

CALLS = 11
FLUSH_FLOATS = 64 << 20
HOLD_CYCLES = 60_000  # while the queue is filled
LEAST_ERROR, WORSE = 1e-6, 8.0  # how much further from float64 than float32 PyTorch a rough comparison lets pass


class Bench:
    """One task's first public workload, with one draw of inputs."""

    def __init__(self, ref: str) -> None:
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
        torch.zeros(1, device="cuda")
        self._device = use_device(0)
        self._task = task = resolve(ref, "cuda")
        generator = torch.Generator("cuda").manual_seed(3)
        self._inputs = draw_inputs(task, task.public_workloads()[0], Family.NORMAL, generator)
        self._exact = run_reference(task, self._inputs, torch.float64)
        self._plain = run_reference(task, self._inputs)
        self._allowed = {
            name: max(LEAST_ERROR, WORSE * _error(self._plain[name], exact)) for name, exact in self._exact.items()
        }
        cuda: Any = torch.cuda
        self._stream = cuda.Stream()
        self._flush = torch.empty(FLUSH_FLOATS, device="cuda")
        self.errors: dict[str, float] = {}
        """Of what was timed last, for each output, as multiples of float32 PyTorch's."""

    def time_eager(self) -> float:
        """Roughly, and with what the host takes for it."""
        arguments = list(self._inputs.values())
        return self._timed(lambda: self._task.reference(*arguments))

    def time(self, built: GpuBuilt) -> float | None:
        """Microseconds, or None where the results are off or a launch is refused."""
        self.errors = {}
        buffers = [self._buffer(block.name, block.extent) for block in built.program.blocks]
        addresses = [buffer.data_ptr() for buffer in buffers]
        try:
            kernels = LoadedProgram(built.program, built.modules)
        except CudaFailure:
            return None
        try:
            kernels.check_arguments()
            kernels.bind(addresses, self._stream.cuda_stream)
            zeroed = [b for b, block in zip(buffers, built.program.blocks, strict=True) if block.fill == "zero"]

            def call() -> None:
                for buffer in zeroed:
                    buffer.zero_()
                kernels.enqueue(zero=False)

            torch.cuda.synchronize()
            with torch.cuda.stream(self._stream):
                call()
            torch.cuda.synchronize()
            right = all(
                self._right(block.name, buffer)
                for block, buffer in zip(built.program.blocks, buffers, strict=True)
                if block.name in self._exact
            )
            return self._timed(call) if right else None
        except (CudaFailure, BadArguments):
            return None
        finally:
            kernels.unload()

    def _buffer(self, name: str, extent: int) -> torch.Tensor:
        given = self._inputs.get(name)
        if isinstance(given, torch.Tensor):
            return given.clone()
        return torch.zeros(extent, dtype=torch.uint8, device="cuda")

    def _right(self, name: str, buffer: torch.Tensor) -> bool:
        exact = self._exact[name]
        found = buffer.view(-1).view(self._plain[name].dtype).view(exact.shape)
        error, plain = _error(found, exact), _error(self._plain[name], exact)
        self.errors[name] = error / plain if plain else 0.0 if not error else math.inf
        return error <= self._allowed[name]

    def _timed(self, call: Callable[[], None]) -> float:
        cuda: Any = torch.cuda
        times = []
        with cuda.stream(self._stream):
            for _ in range(CALLS):
                self._flush.fill_(1.0)
                self._flush.sum()
                cuda._sleep(HOLD_CYCLES)
                start, end = cuda.Event(enable_timing=True), cuda.Event(enable_timing=True)
                start.record(self._stream)
                call()
                end.record(self._stream)
                end.synchronize()
                times.append(float(start.elapsed_time(end)) * 1e3)
        return sorted(times)[CALLS // 2]


def _error(found: torch.Tensor, exact: torch.Tensor) -> float:
    """The largest error against the largest value."""
    worst = float((found.double() - exact.double()).abs().max()) if exact.numel() else 0.0
    scale = float(exact.double().abs().max()) if exact.numel() else 1.0
    return worst / (scale or 1.0) if math.isfinite(worst) else math.inf
