"""Torch's steps before a call is timed: handles, workspaces, lazily loaded kernels and its memory are there then, and a
timed call allocates nothing. They work on zeros of their own, which every operator takes; the arena is not touched."""

from __future__ import annotations

from typing import Any

from kernelwright.contracts.program import LibraryStep, Program
from kernelwright.devices.driver import check, driver
from kernelwright.runtime.launch import LoadedProgram

CALLS = 2  # the second one finds all the memory that the first one gave back


def warm_up(loaded: LoadedProgram, program: Program, stream: Any) -> None:
    cu, steps = driver(), [step for step in program.steps if isinstance(step, LibraryStep)]
    used = {view.block for step in steps for view in (*step.tensors, *step.results)}
    addresses = [block.address for block in program.blocks]
    for number in used:
        count = max(program.blocks[number].extent, 1)
        addresses[number] = int(check(cu.cuMemAlloc(count), f"cannot allocate {count:,} bytes"))
        check(cu.cuMemsetD8Async(addresses[number], 0, count, stream), "cuMemsetD8Async")
    loaded.bind(addresses, stream)
    for _ in range(CALLS):
        loaded.call_library()
    for number in used:
        check(cu.cuMemFree(addresses[number]), "cuMemFree")
