"""Memory between oracle and runner: one sealed memory file per tensor, laid out against its guards.

A tensor ends as close to the unmapped page behind it as its alignment of 256 bytes allows. The slack before and
behind it holds a canary: a NaN pattern, so that an honest vector load past the end does no harm and a value that
leaks from there into a result shows.
"""

from __future__ import annotations

import fcntl
import mmap
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from kernelwright.contracts.layout import ALIGNMENT, WRITABLE_ROLES, extent_bytes
from kernelwright.tasks.model import ScalarSpec, Signature, TensorSpec

PAGE = mmap.PAGESIZE
F_SEAL_FUTURE_WRITE = getattr(fcntl, "F_SEAL_FUTURE_WRITE", 0x0010)


class ArenaLevel(StrEnum):
    """`sealed`: the kernel refuses every way of writing an input. `mapped`: inputs are only mapped read-only."""

    sealed = "sealed"
    mapped = "mapped"


@dataclass(frozen=True)
class Region:
    """Where a tensor lies in its memory file."""

    tensor: TensorSpec
    bytes: int
    offset: int
    extent: int

    @property
    def writable(self) -> bool:
        return self.tensor.role in WRITABLE_ROLES


def region_of(tensor: TensorSpec) -> Region:
    extent = extent_bytes(tensor)
    aligned = max(_round_up(extent, ALIGNMENT), ALIGNMENT)
    total = _round_up(aligned, PAGE)
    return Region(tensor, total, total - aligned, extent)


def _round_up(value: int, step: int) -> int:
    return (value + step - 1) // step * step


class Segment:
    """One memory file, mapped writable by the oracle alone unless it is an output."""

    def __init__(self, region: Region) -> None:
        self.region = region
        self.fd = os.memfd_create(region.tensor.name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.ftruncate(self.fd, region.bytes)
        self.map = mmap.mmap(self.fd, region.bytes, flags=mmap.MAP_SHARED | mmap.MAP_POPULATE)
        self.level = self._seal()

    def _seal(self) -> ArenaLevel:
        fixed = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW
        if self.region.writable:
            fcntl.fcntl(self.fd, fcntl.F_ADD_SEALS, fixed | fcntl.F_SEAL_SEAL)
            return ArenaLevel.sealed
        try:
            fcntl.fcntl(self.fd, fcntl.F_ADD_SEALS, fixed | F_SEAL_FUTURE_WRITE | fcntl.F_SEAL_SEAL)
        except OSError:  # before Linux 5.1
            fcntl.fcntl(self.fd, fcntl.F_ADD_SEALS, fixed | fcntl.F_SEAL_SEAL)
            return ArenaLevel.mapped
        return ArenaLevel.sealed

    def close(self) -> None:
        self.map.close()
        os.close(self.fd)


def layout_text(signature: Signature, descriptors: Sequence[int]) -> str:
    """What the runner reads: one line for each argument. See isolation/native_sources/runner.cpp."""
    remaining = iter(descriptors)
    return "".join(f"{_layout_line(argument, remaining)}\n" for argument in signature.arguments)


def _layout_line(argument: TensorSpec | ScalarSpec, descriptors: Iterator[int]) -> str:
    if isinstance(argument, ScalarSpec):
        if isinstance(argument.value, float):
            return f"real {argument.value.hex()}"
        return f"integer {int(argument.value)}"
    region = region_of(argument)
    numbers = (*argument.shape, *argument.strides)
    fd = next(descriptors)
    place_in_file = f"{region.bytes} {region.offset} {region.extent}"
    head = f"tensor {fd} {place_in_file} {int(region.writable)} {len(argument.shape)}"
    return " ".join((head, *map(str, numbers)))
