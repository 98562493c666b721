"""What can be read off a compiled module without a GPU: the sizes of kernel parameters, and the assembler's report."""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass

from kernelwright.contracts.artefact import sections

_INFO = ".nv.info."
_PARAMETER, _LARGE_PARAMETER = 0x17, 0x45  # attributes of .nv.info: ordinal, offset, size
_SIZED = 4  # the format of an attribute that brings its own bytes


@dataclass(frozen=True)
class Resources:
    """What one kernel takes, as ptxas reports it."""

    kernel: str
    registers: int
    shared: int
    stack: int
    spill_stores: int
    spill_loads: int


_ENTRY = re.compile(r"Compiling entry function '([^']+)'")
_SPILLS = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_USED = re.compile(r"Used (\d+) registers")
_SHARED = re.compile(r"(\d+) bytes smem")


def resources(log: str) -> tuple[Resources, ...]:
    """The report of `--ptxas-options=-v`, one entry for each kernel."""
    found: list[Resources] = []
    kernel, stack, stores, loads = "", 0, 0, 0
    for line in log.splitlines():
        if entry := _ENTRY.search(line):
            kernel, stack, stores, loads = entry.group(1), 0, 0, 0
        elif spills := _SPILLS.search(line):
            stack, stores, loads = map(int, spills.groups())
        elif (used := _USED.search(line)) and kernel:
            shared = _SHARED.search(line)
            found.append(
                Resources(kernel, int(used.group(1)), int(shared.group(1)) if shared else 0, stack, stores, loads)
            )
            kernel = ""
    return tuple(found)


def parameter_sizes(cubin: bytes) -> dict[str, tuple[int, ...]]:
    """Bytes of each parameter by kernel. A module that cannot be read has no entry: the driver has the last word."""
    try:
        return {
            name.removeprefix(_INFO): _parameters(content)
            for name, content in sections(cubin)
            if name.startswith(_INFO)
        }
    except (struct.error, IndexError, ValueError):
        return {}


def _parameters(info: bytes) -> tuple[int, ...]:
    sizes: dict[int, int] = {}
    at = 0
    while at + 4 <= len(info):
        kind, attribute, value = struct.unpack_from("<BBH", info, at)
        at += 4
        if kind != _SIZED:
            continue
        if attribute == _PARAMETER:
            _, ordinal, _, packed = struct.unpack_from("<IHHI", info, at)
            sizes[ordinal] = packed >> 18
        elif attribute == _LARGE_PARAMETER:
            _, ordinal = struct.unpack_from("<IH", info, at)
            (sizes[ordinal],) = struct.unpack_from("<I", info, at + value - 4)
        at += value
    return tuple(sizes[ordinal] for ordinal in sorted(sizes))
