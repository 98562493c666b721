"""Starting a runner for one candidate on one workload, plain or under the sanitizers."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from kernelwright.isolation import sandbox
from kernelwright.isolation.native import program
from kernelwright.isolation.warden import Subject
from kernelwright.judge.arena import layout_text, place
from kernelwright.tasks.model import Signature

START_SECONDS = 10.0
SANITIZER_EXIT = 99
HEADROOM = 4 << 30  # what a candidate may allocate beside the arena and its guards
GUARDS = 2 * (16 << 20)  # see isolation/native_sources/runner.cpp
_ASAN = f"detect_leaks=0:exitcode={SANITIZER_EXIT}:allocator_may_return_null=1:handle_abort=1:color=never"
_UBSAN = f"print_stacktrace=1:halt_on_error=1:exitcode={SANITIZER_EXIT}:color=never"


def start_runner(
    library: Path,
    signature: Signature,
    descriptors: Sequence[int],
    threads: int,
    cpus: tuple[int, ...],
    *,
    sanitized: bool = False,
) -> Subject:
    """A fresh process, stopped as soon as it has loaded the candidate. Answers `ready` first."""
    tensors = sum(place(tensor).bytes for tensor in signature.tensors)
    space = tensors + GUARDS * len(signature.tensors) + HEADROOM
    layout = os.memfd_create("layout", os.MFD_CLOEXEC)
    opened = os.open(library, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.write(layout, layout_text(signature, descriptors).encode())
        os.lseek(layout, 0, os.SEEK_SET)
        found = sandbox.capabilities()
        # Without a root of its own, the runner may not be allowed to walk to the cache; it is handed the file instead.
        path = str(library) if found.namespaces else f"/proc/self/fd/{opened}"
        filter_name = "none" if not found.seccomp else "sanitizer" if sanitized else "runner"
        return Subject(
            [
                str(program("runner-sanitized" if sanitized else "runner")),
                *("{go}", "{done}", str(layout), path, filter_name),
            ],
            sandbox.runner_options(library, tensors, space, cpus, sanitized=sanitized),
            [*descriptors, layout, *([] if found.namespaces else [opened])],
            _environment(threads, sanitized=sanitized),
            START_SECONDS,
        )
    finally:
        os.close(layout)
        os.close(opened)


def _environment(threads: int, *, sanitized: bool) -> dict[str, str]:
    extra = {"ASAN_OPTIONS": _ASAN, "UBSAN_OPTIONS": _UBSAN} if sanitized else {}
    if sanitized:  # more threads than cores interrupt each other anywhere, and a race that hides otherwise shows
        threads = 2 * threads + 1
    return sandbox.clean_environment(OMP_NUM_THREADS=str(threads), OMP_DYNAMIC="false", **extra)
