"""One workload under judgement on a GPU: its arena, filled and emptied again for every trial. Runs in the oracle.

What `judge.oracle.arena.Bench` is on a CPU; caches are flushed by the launcher, behind this.
"""

from __future__ import annotations

import os
import struct
from enum import StrEnum

import torch

from kernelwright.contracts.layout import Access, Layout, Place, lay_out
from kernelwright.devices.driver import attribute, use_device
from kernelwright.judge.oracle.pool import PoolEntry, ValuePool
from kernelwright.judge.oracle.workload_arena import OutsideWrite, WorkloadArena, signed
from kernelwright.runtime.memory import DeviceBytes, Memory
from kernelwright.tasks.model import Signature, Task, TensorSpec, Workload

# The oracle's side of the memory between oracle and launcher: owns it, writes it, looks at it, and hands it out.


class GpuArenaLevel(StrEnum):
    """`guarded`: device code reaches what is mapped for it. `pageable`: it reaches the launcher's host memory, too."""

    guarded = "guarded"
    pageable = "pageable"


class DeviceArena:
    """One exported allocation for each tensor. The launcher maps inputs for reading; here everything is writable."""

    def __init__(self, layout: Layout, index: int = 0) -> None:
        device = use_device(index)
        self.layout = layout
        pageable = attribute(device, "PAGEABLE_MEMORY_ACCESS")
        self.level = GpuArenaLevel.pageable if pageable else GpuArenaLevel.guarded
        self._memory: dict[str, Memory] = {}
        try:
            for place in layout.tensors:
                memory = Memory.create(place.bytes, index, exportable=True)
                self._memory[place.name] = memory
                memory.map_anywhere(index)
        except BaseException:
            self.close()
            raise

    def descriptors(self) -> list[int]:
        """In the order of the signature's tensors. The caller closes them."""
        made: list[int] = []
        try:
            for place in self.layout.tensors:
                made.append(self._memory[place.name].descriptor())
        except BaseException:
            for descriptor in made:
                os.close(descriptor)
            raise
        return made

    def whole(self, place: Place) -> DeviceBytes:
        """The allocation with its slack."""
        return DeviceBytes(self._memory[place.name].base, place.bytes)

    def contents(self, place: Place) -> DeviceBytes:
        return DeviceBytes(self._memory[place.name].base + place.offset, place.extent)

    def close(self) -> None:
        for memory in self._memory.values():
            memory.close()
        self._memory.clear()


class GpuArena(WorkloadArena):
    def __init__(self, task: Task, workload: Workload, signature: Signature, pool: ValuePool, index: int = 0) -> None:
        super().__init__(task, workload, signature, pool)
        self._device = torch.device("cuda", index)
        torch.zeros((), device=self._device)  # torch makes the context, which the arena then shares
        self._arena = DeviceArena(lay_out(signature), index)
        self._places = {place.name: place for place in self._arena.layout.tensors}
        self._bytes = {name: self._shared(self._arena.whole(place)) for name, place in self._places.items()}
        self._views = {tensor.name: self._view(tensor) for tensor in signature.tensors}
        self._descriptors: list[int] = []

    def _shared(self, memory: object) -> torch.Tensor:
        return torch.as_tensor(memory, device=self._device)

    def _view(self, tensor: TensorSpec) -> torch.Tensor:
        dtype = getattr(torch, tensor.dtype)
        place = self._places[tensor.name]
        if place.extent == 0:
            return torch.empty(tensor.shape, dtype=dtype, device=self._device)
        flat = self._bytes[tensor.name][place.offset : place.tail].view(dtype)
        return flat.as_strided(tensor.shape, tensor.strides)

    @property
    def descriptors(self) -> list[int]:
        """Of the arena's tensors, to be sent; they stay open until the arena is closed."""
        if not self._descriptors:
            self._descriptors = self._arena.descriptors()
        return self._descriptors

    @property
    def level(self) -> GpuArenaLevel:
        return self._arena.level

    def blank(self) -> None:
        """Leaves nothing of a trial in the arena."""
        self._item = None
        for memory in self._bytes.values():
            memory.fill_(255)
        torch.cuda.synchronize(self._device)

    def load(self, item: PoolEntry, word: int) -> None:
        """Puts a trial's values into the arena. The launcher runs nothing while this happens."""
        self._item, self._word = item, word
        for name, place in self._places.items():
            if place.access is Access.read and item.tensor(name) is not self._views[name]:
                self._fill(name)
                self._views[name].copy_(item.tensor(name))
        self.restore()

    def restore(self) -> None:
        """Resets what a call may have changed, so that another call sees the same."""
        assert self._item is not None
        for tensor in self.signature.tensors:
            if self._places[tensor.name].access is Access.write:
                self._fill(tensor.name)
                if tensor.role == "inout":
                    self._views[tensor.name].copy_(self._item.tensor(tensor.name))
        torch.cuda.synchronize(self._device)

    def outside_write(self) -> OutsideWrite | None:
        for name, place in self._places.items():
            if place.access is Access.write and (side := self._side(name, place)):
                return OutsideWrite(name, side)
        return None

    def _fill(self, name: str) -> None:
        self._bytes[name].view(torch.int32).fill_(signed(self._word))

    def _side(self, name: str, place: Place) -> str:
        memory = self._bytes[name]
        if not bool((memory[: place.offset].view(torch.int32) == signed(self._word)).all()):
            return "before its start"
        behind = memory[place.tail :]
        pattern = torch.frombuffer(bytearray(struct.pack("<I", self._word) * 65), dtype=torch.uint8)
        start = place.tail % 4
        if not torch.equal(behind, pattern[start : start + behind.numel()].to(behind.device)):
            return "behind its end"
        return ""

    def close(self) -> None:
        """Work that torch has queued on the arena, such as reading results for their errors, ends first."""
        torch.cuda.synchronize(self._device)
        self._views.clear()
        self._bytes.clear()
        self._remembered.clear()
        for descriptor in self._descriptors:
            os.close(descriptor)
        self._descriptors.clear()
        self._arena.close()
