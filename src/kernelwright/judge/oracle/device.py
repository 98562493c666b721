"""Where an oracle works: the memory of its device, the arenas it opens there, and what the device reaches."""

from __future__ import annotations

import ctypes
from dataclasses import asdict
from typing import Any, Protocol

import torch

from kernelwright.devices.cpu import probe
from kernelwright.devices.names import Device, Kind
from kernelwright.errors import CannotDecide
from kernelwright.isolation.channel import Message
from kernelwright.judge.oracle.cpu_arena import CpuArena
from kernelwright.judge.oracle.pool import ValuePool
from kernelwright.judge.oracle.workload_arena import WorkloadArena
from kernelwright.tasks.model import Signature, Task, Workload

POOL_SHARE = 0.3  # of the device's memory, for all pools together
MOST_POOLS = 4 << 30  # of the host's, where others want to work too
GPU_SHARE = 0.6  # of the GPU's memory; beyond it torch gives back what it keeps, since others compute there too


class OracleDevice(Protocol):
    kind: Kind
    torch_device: torch.device
    pool_bytes: int

    def arena(self, task: Task, workload: Workload, signature: Signature, pool: ValuePool) -> WorkloadArena: ...

    def peaks(self) -> Message: ...

    def tidy(self) -> None:
        """Gives back memory that is not in use, before a runner comes."""


def oracle_device(device: Device) -> OracleDevice:
    return CpuOracleDevice() if device.kind == "cpu" else GpuOracleDevice(device.index)


class CpuOracleDevice:
    kind: Kind = "cpu"

    def __init__(self) -> None:
        self.torch_device = torch.device("cpu")
        self.pool_bytes = min(int(probe().memory_bytes * POOL_SHARE), MOST_POOLS)

    def arena(self, task: Task, workload: Workload, signature: Signature, pool: ValuePool) -> WorkloadArena:
        return CpuArena(task, workload, signature, pool)

    def peaks(self) -> Message:
        from kernelwright.devices.cpu import cpu_peaks

        return asdict(cpu_peaks())

    def tidy(self) -> None:
        """Values come and go in other sizes than references do, and leave holes."""
        ctypes.CDLL(None).malloc_trim(0)


class GpuOracleDevice:
    kind: Kind = "cuda"

    def __init__(self, index: int) -> None:
        from kernelwright.devices import nvidia

        self._index = index
        self._gpu = nvidia.probe(index)
        self.torch_device = torch.device("cuda", index)
        self.pool_bytes = int(self._gpu.memory_bytes * POOL_SHARE)
        cuda: Any = torch.cuda
        if not cuda.is_available():
            raise CannotDecide(f"torch {torch.__version__} cannot use the GPU: install a build of it with CUDA")
        cuda.set_device(index)
        cuda.set_per_process_memory_fraction(GPU_SHARE, index)

    def arena(self, task: Task, workload: Workload, signature: Signature, pool: ValuePool) -> WorkloadArena:
        from kernelwright.judge.oracle.gpu_arena import GpuArena

        return GpuArena(task, workload, signature, pool, self._index)

    def peaks(self) -> Message:
        from kernelwright.devices.peaks_nvidia import gpu_peaks

        found = asdict(gpu_peaks(self._gpu))
        torch.cuda.empty_cache()
        return found

    def tidy(self) -> None:
        """torch keeps what it frees, and gives it back where others need it (GPU_SHARE)."""
