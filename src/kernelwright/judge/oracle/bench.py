"""One workload under judgement: its arena, filled and emptied again for every trial."""

from __future__ import annotations

import ctypes
import random
import struct
from dataclasses import dataclass

import torch

from kernelwright.judge.arena import ArenaLevel, Region, Segment, place
from kernelwright.judge.native import program
from kernelwright.judge.oracle.compare import Mismatch, check
from kernelwright.judge.oracle.pool import Item, Pool
from kernelwright.tasks.model import Signature, Task, Workload


@dataclass(frozen=True)
class Trespass:
    """A write outside an output: the tensor, and which side of it."""

    tensor: str
    side: str


def sentinel_word(source: random.Random) -> int:
    """A bit pattern that is a NaN in every floating-point format, whichever half or word of it is looked at."""
    halves = (source.choice((0x7FF0, 0xFFF0)) | source.randrange(1, 16) for _ in range(2))
    high, low = halves
    return high << 16 | low


class Bench:
    def __init__(self, task: Task, workload: Workload, signature: Signature, pool: Pool) -> None:
        self.task, self.workload, self.signature, self.pool = task, workload, signature, pool
        self._segments = {tensor.name: Segment(place(tensor)) for tensor in signature.tensors}
        self._words = {
            name: torch.frombuffer(segment.map, dtype=torch.int32) for name, segment in self._segments.items()
        }
        self._views = {name: _view(segment) for name, segment in self._segments.items()}
        self._flush = ctypes.CDLL(str(program("flush.so"))).kw_flush
        self._flush.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
        self._item: Item | None = None
        self._word = 0
        self._remembered: dict[str, torch.Tensor] = {}

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

    def load(self, item: Item, word: int) -> None:
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
                self._words[name].fill_(_signed(self._word))
                if segment.region.tensor.role == "inout":
                    self._views[name].copy_(self._item.tensor(name))
        for name in self._segments:
            words = self._words[name]
            self._flush(words.data_ptr(), words.numel() * 4)

    def check(self) -> Trespass | tuple[str, Mismatch] | None:
        """What is wrong with the outputs as they stand, if anything."""
        assert self._item is not None
        for segment in self._segments.values():
            if segment.region.writable:
                side = self._trespass(segment)
                if side:
                    return Trespass(segment.region.tensor.name, side)
        for name in self.task.result_names:
            mismatch = check(self._item.expectations[name], self._views[name], self._word)
            if mismatch is not None:
                return name, mismatch
        return None

    def remember(self) -> None:
        self._remembered = {name: self._views[name].clone() for name in self.task.result_names}

    def matches_remembered(self) -> bool:
        """Bit for bit, because a deterministic kernel gives the same bits."""
        return all(torch.equal(_bits(self._views[name]), _bits(kept)) for name, kept in self._remembered.items())

    def results(self) -> dict[str, torch.Tensor]:
        return {name: self._views[name] for name in self.task.result_names}

    @property
    def loaded(self) -> bool:
        return self._item is not None

    @property
    def item(self) -> Item:
        assert self._item is not None
        return self._item

    def _pattern(self, start: int, stop: int) -> bytes:
        word = struct.pack("<I", self._word)
        phase = start % 4
        return (word * ((stop - start) // 4 + 2))[phase : phase + stop - start]

    def _guard(self, region: Region) -> None:
        segment = self._segments[region.tensor.name]
        tail = region.offset + region.extent
        segment.map[: region.offset] = self._pattern(0, region.offset)
        segment.map[tail : region.bytes] = self._pattern(tail, region.bytes)

    def _trespass(self, segment: Segment) -> str:
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


def _bits(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.contiguous().view(torch.uint8) if tensor.ndim else tensor.reshape(1).view(torch.uint8)


def _signed(word: int) -> int:
    return word - (1 << 32) if word >= 1 << 31 else word
