"""Starting a runner for one candidate on one workload, plain or under the sanitizers."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

from kernelwright.isolation import start
from kernelwright.isolation.levels import capabilities
from kernelwright.isolation.log import DrainedLog
from kernelwright.isolation.native import program
from kernelwright.isolation.roles import Role
from kernelwright.isolation.warden import WardedProcess
from kernelwright.judge.arena import layout_text, region_of
from kernelwright.tasks.model import Signature

START_SECONDS = 10.0
SANITIZER_EXIT = 99
HEADROOM = 4 << 30  # what a candidate may allocate beside the arena and its guards
GUARDS = 2 * (16 << 20)  # see isolation/native_sources/runner.cpp
_ASAN = f"detect_leaks=0:exitcode={SANITIZER_EXIT}:allocator_may_return_null=1:handle_abort=1:color=never"
_UBSAN = f"print_stacktrace=1:halt_on_error=1:exitcode={SANITIZER_EXIT}:color=never"
# What a sanitizer's report names a fault with; it begins with words, so that long lines take no time.
REPORT = re.compile(rb"(?:ERROR: AddressSanitizer|runtime error:|AddressSanitizer:DEADLYSIGNAL)[^\n]{0,1000}")


def start_runner(
    library: Path,
    signature: Signature,
    descriptors: Sequence[int],
    threads: int,
    cpus: tuple[int, ...],
    *,
    sanitized: bool = False,
    others: Sequence[tuple[Signature, Sequence[int]]] = (),
) -> WardedProcess:
    """A fresh process, stopped as soon as it has loaded the candidate. Answers `ready` first. It can be called on other
    workloads as well, each of which has a signature and descriptors of its own."""
    workloads = ((signature, descriptors), *others)
    held = [tensor for made, _ in workloads for tensor in made.tensors]
    tensors = sum(region_of(tensor).bytes for tensor in held)
    space = tensors + GUARDS * len(held) + HEADROOM
    layout = os.memfd_create("layout", os.MFD_CLOEXEC)
    opened = os.open(library, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.write(layout, "other\n".join(layout_text(*workload) for workload in workloads).encode())
        os.lseek(layout, 0, os.SEEK_SET)
        role = Role.sanitized_runner if sanitized else Role.runner
        own_root = capabilities().namespaces
        # Without a root of its own, the runner may not be allowed to walk to the cache; it is handed the file instead.
        path = str(library) if own_root else f"/proc/self/fd/{opened}"
        grant = start.Grant(
            visible=(library,),
            # The sanitizers reserve terabytes of address space; what is used of it is watched instead.
            address_space=0 if sanitized else space,
            resident=space if sanitized else 0,
            tensors=tensors,
            cpus=cpus,
            variables=_variables(threads, sanitized=sanitized),
        )
        return start.timed(
            role,
            [
                str(program("runner-sanitized" if sanitized else "runner")),
                *("{go}", "{done}", str(layout), path, start.own_filter(role)),
            ],
            grant,
            [*(one for _, given in workloads for one in given), layout, *([] if own_root else [opened])],
            START_SECONDS,
            DrainedLog(REPORT) if sanitized else None,
        )
    finally:
        os.close(layout)
        os.close(opened)


def _variables(threads: int, *, sanitized: bool) -> dict[str, str]:
    extra = {"ASAN_OPTIONS": _ASAN, "UBSAN_OPTIONS": _UBSAN} if sanitized else {}
    if sanitized:  # more threads than cores interrupt each other anywhere, and a race that hides otherwise shows
        threads = 2 * threads + 1
    return {"OMP_NUM_THREADS": str(threads), "OMP_DYNAMIC": "false", **extra}
