"""Real memory for the interpreter: every tensor ends at an unmapped page, as close as its alignment allows.

The bytes between a tensor's end and that page hold a canary, which `overrun` finds changed.
"""

from __future__ import annotations

import ctypes
import mmap
import os
from typing import Any

import torch

PAGE, ALIGNMENT, GUARD = mmap.PAGESIZE, 256, 16 << 20
CANARY = 0xA5
_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, *(ctypes.c_int,) * 3, ctypes.c_long)
_libc.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
_FIXED, _NORESERVE = 0x10, 0x4000


def _map(address: int, size: int, protection: int, flags: int, descriptor: int) -> int:
    found = _libc.mmap(address or None, size, protection, flags, descriptor, 0)
    if found is None or found == ctypes.c_void_p(-1).value:
        raise MemoryError(f"cannot map {size:,} bytes")
    return int(found)


def between_guards(size: int, descriptor: int = -1, *, writable: bool = True) -> int:
    """The address of pages with nothing mapped before and behind them: of a file, or of their own."""
    whole = -(-size // PAGE) * PAGE
    nothing = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NORESERVE
    reserved = _map(0, whole + 2 * GUARD, 0, nothing, -1)
    protection = mmap.PROT_READ | (mmap.PROT_WRITE if writable else 0)
    flags = _FIXED | (mmap.MAP_SHARED if descriptor >= 0 else mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    found = _map(reserved + GUARD, whole, protection, flags, descriptor)
    if descriptor >= 0:
        os.close(descriptor)
    return found


def tensor_at(address: int, extent: int, dtype: torch.dtype, sizes: list[int], strides: list[int]) -> torch.Tensor:
    if extent == 0:
        return torch.empty_strided(sizes, strides, dtype=dtype)
    memory = (ctypes.c_char * extent).from_address(address)
    flat = torch.frombuffer(memory, dtype=dtype)
    return flat.as_strided(sizes, strides)


class Allocations:
    """What host code allocates in one call."""

    def __init__(self) -> None:
        self._made: list[tuple[int, int, int]] = []  # address of the pages, their bytes, where the tensor ends

    def like(self, shape: torch.Tensor) -> torch.Tensor:
        """StandInMemory full of NaN, or of large numbers, for a tensor without values of this shape."""
        extent = shape.untyped_storage().nbytes()
        aligned = max(-(-extent // ALIGNMENT) * ALIGNMENT, ALIGNMENT)
        total = -(-aligned // PAGE) * PAGE
        pages = between_guards(total)
        ctypes.memset(pages, CANARY, total)
        begin = pages + total - aligned
        self._made.append((pages, total, begin + extent))
        made = tensor_at(begin, extent, shape.dtype, list(shape.shape), list(shape.stride()))
        if shape.dtype.is_floating_point and extent:
            ctypes.memset(begin, 0xFF, extent)  # NaN in every floating dtype
        return made

    def overrun(self) -> bool:
        return any(
            ctypes.string_at(end, pages + total - end) != bytes([CANARY]) * (pages + total - end)
            for pages, total, end in self._made
        )

    def free(self) -> None:
        for pages, total, _ in self._made:
            _libc.munmap(pages - GUARD, total + 2 * GUARD)
        self._made = []


def read_layout(text: str, dtypes: list[str]) -> list[Any]:
    """The arguments of a runner's layout (isolation/native_sources/runner.cpp): tensors in the arena, and numbers."""
    found: list[Any] = []
    remaining = iter(dtypes)
    for line in text.splitlines():
        kind, *words = line.split()
        if kind == "real":
            found.append(float.fromhex(words[0]))
        elif kind == "integer":
            found.append(int(words[0]))
        else:
            descriptor, size, offset, extent, writable, rank, *rest = map(int, words)
            address = between_guards(size, descriptor, writable=bool(writable)) + offset
            dtype = getattr(torch, next(remaining))
            found.append(tensor_at(address, extent, dtype, rest[:rank], rest[rank:]))
    return found
