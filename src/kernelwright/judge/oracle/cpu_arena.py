"""One workload under judgement on a CPU: its arena, filled and emptied again for every trial."""

from __future__ import annotations

import ctypes
import struct

import torch

from kernelwright.isolation.native import program
from kernelwright.judge.arena import ArenaLevel, Region, Segment, region_of
from kernelwright.judge.oracle.pool import PoolEntry, ValuePool
from kernelwright.judge.oracle.workload_arena import OutsideWrite, WorkloadArena, signed
from kernelwright.tasks.model import Signature, Task, Workload


class CpuArena(WorkloadArena):
    def __init__(self, task: Task, workload: Workload, signature: Signature, pool: ValuePool) -> None:
        super().__init__(task, workload, signature, pool)
        self._segments = {tensor.name: Segment(region_of(tensor)) for tensor in signature.tensors}
        self._words = {
            name: torch.frombuffer(segment.map, dtype=torch.int32) for name, segment in self._segments.items()
        }
        self._views = {name: _view(segment) for name, segment in self._segments.items()}
        self._flush = ctypes.CDLL(str(program("flush.so"))).kw_flush
        self._flush.argtypes = [ctypes.c_void_p, ctypes.c_size_t]

    @property
    def descriptors(self) -> list[int]:
        return [self._segments[tensor.name].fd for tensor in self.signature.tensors]

    @property
    def level(self) -> ArenaLevel:
        levels = {segment.level for segment in self._segments.values()}
        return ArenaLevel.mapped if ArenaLevel.mapped in levels else ArenaLevel.sealed

    def blank(self) -> None:
        """Leaves nothing of a trial in the arena. A runner that starts, with its constructors, sees this."""
        self._item = None
        for words in self._words.values():
            words.fill_(-1)

    def load(self, item: PoolEntry, word: int) -> None:
        """Puts a trial's values into the arena. The runner is stopped while this happens."""
        self._item, self._word = item, word
        for name, segment in self._segments.items():
            if not segment.region.writable:
                self._views[name].copy_(item.tensor(name))
                self._guard(segment.region)
        self.restore()

    def restore(self) -> None:
        """Resets what a call may have changed, and empties the caches, so that another call sees the same."""
        assert self._item is not None
        for name, segment in self._segments.items():
            if segment.region.writable:
                self._words[name].fill_(signed(self._word))
                if segment.region.tensor.role == "inout":
                    self._views[name].copy_(self._item.tensor(name))
        for name in self._segments:
            words = self._words[name]
            self._flush(words.data_ptr(), words.numel() * 4)

    def outside_write(self) -> OutsideWrite | None:
        for segment in self._segments.values():
            if segment.region.writable and (side := self._side(segment)):
                return OutsideWrite(segment.region.tensor.name, side)
        return None

    def _pattern(self, start: int, stop: int) -> bytes:
        word = struct.pack("<I", self._word)
        phase = start % 4
        return (word * ((stop - start) // 4 + 2))[phase : phase + stop - start]

    def _guard(self, region: Region) -> None:
        segment = self._segments[region.tensor.name]
        tail = region.offset + region.extent
        segment.map[: region.offset] = self._pattern(0, region.offset)
        segment.map[tail : region.bytes] = self._pattern(tail, region.bytes)

    def _side(self, segment: Segment) -> str:
        region = segment.region
        tail = region.offset + region.extent
        if segment.map[: region.offset] != self._pattern(0, region.offset):
            return "before its start"
        if segment.map[tail : region.bytes] != self._pattern(tail, region.bytes):
            return "behind its end"
        return ""

    def close(self) -> None:
        self._views.clear()
        self._words.clear()
        self._remembered.clear()
        for segment in self._segments.values():
            segment.close()


def _view(segment: Segment) -> torch.Tensor:
    tensor = segment.region.tensor
    dtype = getattr(torch, tensor.dtype)
    if segment.region.extent == 0:
        return torch.empty(tensor.shape, dtype=dtype)
    count = segment.region.extent // dtype.itemsize
    flat = torch.frombuffer(segment.map, dtype=dtype, offset=segment.region.offset, count=count)
    return flat.as_strided(tensor.shape, tensor.strides)
