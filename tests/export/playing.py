"""A CUDA driver that is played: it notes what it is asked. Nothing runs on a GPU."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kernelwright.contracts.program import Program
from kernelwright.export.standalone import driver

STREAM = 77


@dataclass
class PlayedDriver:
    """Notes what it is asked. Kernels are numbered in the order in which they are looked up."""

    kernels: list[str] = field(default_factory=list)
    launches: list[tuple[Any, str, list[bytes]]] = field(default_factory=list)
    steps: list[Any] = field(default_factory=list)  # launches, memsets and copies in order
    maps: list[dict[str, Any]] = field(default_factory=list)
    zeroed: list[int] = field(default_factory=list)
    answers: list[int] = field(default_factory=list)
    made_current: int = 0

    def cuLibraryLoadData(self, module: Any, content: bytes, *_: Any) -> int:  # noqa: N802
        module._obj.value = 1
        assert content.startswith(b"\x7fELF")
        return 0

    def cuLibraryGetKernel(self, found: Any, module: Any, name: bytes) -> int:  # noqa: N802
        self.kernels.append(name.decode())
        found._obj.value = len(self.kernels)
        return 0

    def cuKernelSetAttribute(self, *_: Any) -> int:  # noqa: N802
        return 0

    def cuMemsetD8Async(self, address: Any, value: Any, size: Any, stream: Any) -> int:  # noqa: N802
        assert stream.value == STREAM
        ctypes.memset(address.value, value.value, size.value)
        self.zeroed.append(size.value)
        self.steps.append(("set", address.value, size.value, value.value))
        return 0

    def cuMemsetD32Async(self, address: Any, value: Any, count: Any, stream: Any) -> int:  # noqa: N802
        self.steps.append(("set", address.value, 4 * count.value, value.value))
        return 0

    def cuMemcpyDtoDAsync_v2(self, target: Any, source: Any, size: Any, stream: Any) -> int:  # noqa: N802
        self.steps.append(("copy", target.value, source.value, size.value))
        return 0

    def cuTensorMapEncodeTiled(self, target: Any, kind: int, rank: int, address: Any, *rest: Any) -> int:  # noqa: N802
        assert target.value % driver.MAP_ALIGNMENT == 0
        lists = [list(one)[: rank - (place == 1)] for place, one in enumerate(rest[:4])]
        self.maps.append({"type": kind, "address": address.value, "lists": lists, "rest": rest[4:]})
        return 0

    def cuLaunchKernelEx(self, configuration: Any, kernel: Any, arguments: Any, _: Any) -> int:  # noqa: N802
        answer = self.answers.pop(0) if self.answers else 0
        if answer == 0:
            one = configuration._obj
            attributes = {one.attributes[n].id: tuple(one.attributes[n].value)[:3] for n in range(one.count)}
            form = tuple(one.grid), tuple(one.block), one.shared, one.stream, attributes
            read = [ctypes.string_at(pointer, 128) for pointer in arguments if pointer]
            self.steps.append("launch")
            self.launches.append((form, self.kernels[kernel.value - 1], read))
        return answer

    def cuDevicePrimaryCtxRetain(self, context: Any, _: int) -> int:  # noqa: N802
        return 0

    def cuCtxSetCurrent(self, _: Any) -> int:  # noqa: N802
        self.made_current += 1
        return 0

    def cuGetErrorName(self, status: int, name: Any) -> int:  # noqa: N802
        name._obj.value = b"CUDA_ERROR_PLAYED"
        return 0


def assert_launched(played: PlayedDriver, program: Program, addresses: Mapping[str, int]) -> None:
    """What was launched is what a judge's launcher would carry out, but for where scratch lies."""
    assert len(played.launches) == len(program.launches)
    for (form, kernel, given), step in zip(played.launches, program.launches, strict=True):
        grid, block, shared, stream, attributes = form
        assert (grid, block, shared, stream) == (step.grid, step.block, step.shared, STREAM) and kernel == step.function
        assert attributes.get(driver.CLUSTER, None) == step.cluster
        assert (driver.COOPERATIVE in attributes, driver.DEPENDENT in attributes) == (step.cooperative, step.dependent)
        for argument, content in zip(step.arguments, given, strict=True):
            if argument.tensor_map >= 0:
                continue
            wanted, got = bytearray.fromhex(argument.data), bytearray(content[: argument.size])
            for pointer in argument.pointers:
                where = program.blocks[pointer.block].name
                value = int.from_bytes(got[pointer.at : pointer.at + 8], "little")
                if where in addresses:
                    assert value == addresses[where] + pointer.offset
                got[pointer.at : pointer.at + 8] = bytes(8)
            assert got == wanted
    for entry, seen in zip(program.tensor_maps, played.maps, strict=True):
        assert seen["lists"] == [list(entry.sizes), list(entry.strides), list(entry.box), list(entry.steps)]
        assert seen["address"] == addresses[program.blocks[entry.block].name] + entry.offset
