"""Where an oracle works: the memory of its device, the arenas it opens there, and what the device reaches."""

from __future__ import annotations

import ctypes
import os
import sys
from dataclasses import asdict
from typing import Any, Protocol

import torch

from kernelwright.devices.cpu import available_memory, probe
from kernelwright.devices.names import Device, Kind
from kernelwright.errors import CannotDecide
from kernelwright.isolation.channel import Message
from kernelwright.judge.oracle.cpu_arena import CpuArena
from kernelwright.judge.oracle.ledger import shown
from kernelwright.judge.oracle.pool import ValuePool
from kernelwright.judge.oracle.workload_arena import WorkloadArena
from kernelwright.tasks.model import Signature, Task, Workload

POOL_SHARE = 0.3  # of the device's memory, for all pools together
MOST_POOLS = 4 << 30  # of the host's, where others want to work too
HOST_SHARE = 0.6  # of the host's memory, for a judging and all that is held beside it
AVAILABLE_SHARE = 0.8  # of what other programs leave of it when the oracle starts
GPU_SHARE = 0.8  # of the GPU's memory; beyond it torch gives back what it keeps, since others compute there too
CONTEXTS = 4 << 30  # of a GPU: contexts of oracle, baselines, runner and inspectors, with buffers that flush caches
KEPT_SHARE = 0.05  # of the limit: what torch or the C library may keep for itself between trials
_LIBC: Any = ctypes.CDLL(None)
LIMIT_VARIABLE = "KERNELWRIGHT_JUDGE_MEMORY"
UNITS = {"K": 10, "M": 20, "G": 30}


def chosen_limit(usual: int) -> int:
    """What a judging may have: the usual share, or less where the environment says so ("512M")."""
    given = os.environ.get(LIMIT_VARIABLE, "").strip().upper()
    if not given:
        return usual
    number, unit = (given[:-1], UNITS[given[-1]]) if given[-1] in UNITS else (given, 0)
    if not number.isdecimal() or not int(number):
        raise CannotDecide(f"{LIMIT_VARIABLE}={given}: write a number of bytes, such as 512M or 24G")
    return min(usual, int(number) << unit)


class _HeapCounts(ctypes.Structure):
    """What the C library's `mallinfo2` answers."""

    _fields_ = tuple(
        (name, ctypes.c_size_t)
        for name in (
            *("arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks"),
            *("uordblks", "fordblks", "keepcost"),
        )
    )


def _free_heap() -> int:
    """Bytes that the C library holds unused; all of them where it cannot say."""
    count: Any = getattr(_LIBC, "mallinfo2", None)
    if count is None:  # before glibc 2.33
        return sys.maxsize
    count.restype = _HeapCounts
    return int(count().fordblks)


class OracleDevice(Protocol):
    kind: Kind
    torch_device: torch.device
    name: str
    pool_bytes: int
    limit_bytes: int  # what a judging and all that is held beside it may have

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
        total = probe().memory_bytes
        self.limit_bytes = chosen_limit(int(min(total * HOST_SHARE, available_memory() * AVAILABLE_SHARE)))
        self.pool_bytes = min(int(self.limit_bytes * POOL_SHARE / HOST_SHARE), MOST_POOLS)
        self.name = f"this machine ({shown(total)})"

    def arena(self, task: Task, workload: Workload, signature: Signature, pool: ValuePool) -> WorkloadArena:
        return CpuArena(task, workload, signature, pool)

    def peaks(self) -> Message:
        from kernelwright.devices.cpu import cpu_peaks

        return asdict(cpu_peaks())

    def tidy(self) -> None:
        """Values come and go in other sizes than references do, and leave holes. Pages given back cost as much to get
        again as it takes to compute with them, so a little is kept."""
        if _free_heap() > KEPT_SHARE * self.limit_bytes:
            _LIBC.malloc_trim(0)


class GpuOracleDevice:
    kind: Kind = "cuda"

    def __init__(self, index: int) -> None:
        from kernelwright.devices import nvidia

        self._index = index
        self._gpu = nvidia.probe(index)
        self.torch_device = torch.device("cuda", index)
        self.name = f"cuda:{index} {self._gpu.name} ({shown(self._gpu.memory_bytes)})"
        cuda: Any = torch.cuda
        if not cuda.is_available():
            raise CannotDecide(f"torch {torch.__version__} cannot use the GPU: install a build of it with CUDA")
        cuda.set_device(index)
        cuda.set_per_process_memory_fraction(GPU_SHARE, index)
        free, _ = cuda.mem_get_info(index)
        self.limit_bytes = chosen_limit(max(0, int(free) - CONTEXTS))
        self.pool_bytes = int(self.limit_bytes * POOL_SHARE)

    def arena(self, task: Task, workload: Workload, signature: Signature, pool: ValuePool) -> WorkloadArena:
        from kernelwright.judge.oracle.gpu_arena import GpuArena

        return GpuArena(task, workload, signature, pool, self._index)

    def peaks(self) -> Message:
        from kernelwright.devices.peaks_nvidia import gpu_peaks

        found = asdict(gpu_peaks(self._gpu))
        torch.cuda.empty_cache()
        return found

    def tidy(self) -> None:
        """torch keeps what it frees. A little of it is used again at once; the rest is others' to have."""
        cuda: Any = torch.cuda
        if cuda.memory_reserved(self._index) - cuda.memory_allocated(self._index) > KEPT_SHARE * self.limit_bytes:
            cuda.empty_cache()
