"""CUDA virtual memory: allocations that travel by descriptor and are mapped where, and as, their user may use them."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from kernelwright.devices.driver import check, driver


@dataclass(frozen=True)
class DeviceBytes:
    """Device memory as torch takes it: `torch.as_tensor(DeviceBytes(...), device="cuda")` shares it."""

    address: int
    count: int

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {"shape": (self.count,), "typestr": "|u1", "data": (self.address, False), "version": 3}


class Memory:
    """One allocation, made here or received, and its mapping in this process."""

    def __init__(self, handle: Any, size: int) -> None:
        self._handle, self.bytes = handle, size
        self.base = 0
        self._reserved: tuple[int, int] | None = None

    @classmethod
    def create(cls, size: int, device: int, *, exportable: bool) -> Memory:
        cu = driver()
        wanted = cu.CUmemAllocationProp()
        wanted.type = cu.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
        wanted.location.type = cu.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
        wanted.location.id = device
        if exportable:
            wanted.requestedHandleTypes = _by_descriptor()
        return cls(check(cu.cuMemCreate(size, wanted, 0), f"cannot allocate {size:,} bytes"), size)

    @classmethod
    def receive(cls, descriptor: int, size: int) -> Memory:
        """Takes an allocation that another process exported; the descriptor is closed."""
        cu = driver()
        try:
            handle = check(cu.cuMemImportFromShareableHandle(descriptor, _by_descriptor()), "cannot import memory")
        finally:
            os.close(descriptor)
        return cls(handle, size)

    def descriptor(self) -> int:
        """A descriptor that another process may receive; the caller closes it."""
        answer = driver().cuMemExportToShareableHandle(self._handle, _by_descriptor(), 0)
        return int(check(answer, "cannot export memory"))

    def map(self, base: int, device: int, *, writable: bool) -> None:
        """Maps it at an address that is reserved already."""
        cu = driver()
        check(cu.cuMemMap(base, self.bytes, 0, self._handle, 0), "cuMemMap")
        self.base = base
        access = cu.CUmemAccessDesc()
        access.location.type = cu.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
        access.location.id = device
        flags = cu.CUmemAccess_flags
        access.flags = flags.CU_MEM_ACCESS_FLAGS_PROT_READWRITE if writable else flags.CU_MEM_ACCESS_FLAGS_PROT_READ
        check(cu.cuMemSetAccess(base, self.bytes, [access], 1), "cuMemSetAccess")

    def map_anywhere(self, device: int) -> None:
        base = reserve(self.bytes)
        self._reserved = (base, self.bytes)
        self.map(base, device, writable=True)

    def unmap(self) -> None:
        """What lies in it stays, and nothing in this process reaches it until it is mapped again."""
        cu = driver()
        if self.base:
            check(cu.cuMemUnmap(self.base, self.bytes), "cuMemUnmap")
            self.base = 0
        if self._reserved:
            check(cu.cuMemAddressFree(*self._reserved), "cuMemAddressFree")
            self._reserved = None

    def close(self) -> None:
        self.unmap()
        check(driver().cuMemRelease(self._handle), "cuMemRelease")


def reserve(size: int, at: int = 0) -> int:
    """Reserves addresses; `at` is a wish, and the caller looks at what it got."""
    return int(check(driver().cuMemAddressReserve(size, 0, at, 0), "cuMemAddressReserve"))


def _by_descriptor() -> Any:
    return driver().CUmemAllocationHandleType.CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
