"""The oracle's side of the memory between oracle and launcher: owns it, writes it, looks at it, and hands it out."""

from __future__ import annotations

import os
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from kernelwright.contracts.layout import Layout, Place
from kernelwright.devices.driver import attribute, use_device
from kernelwright.runtime.memory import Memory


class GpuArenaLevel(StrEnum):
    """`guarded`: device code reaches what is mapped for it. `pageable`: it reaches the launcher's host memory, too."""

    guarded = "guarded"
    pageable = "pageable"


@dataclass(frozen=True)
class DeviceBytes:
    """Device memory as torch takes it: `torch.as_tensor(DeviceBytes(...), device="cuda")` shares it."""

    address: int
    count: int

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {"shape": (self.count,), "typestr": "|u1", "data": (self.address, False), "version": 3}


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
