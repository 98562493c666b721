"""What of a program is the candidate's own: which of its launches the results depend on.

A launch may write every block that it has a pointer to and may write, and reads all of them. So a launch that counts
here may still do nothing; one that does not count cannot change a result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from kernelwright.contracts.program import Block, Copy, LibraryStep, Memset, Program, ProgramStep, TensorView
from kernelwright.tasks.dtypes import ITEM_BYTES


def launches_that_count(program: Program, own: Callable[[ProgramStep], bool]) -> int:
    """How many of its own launches come before a result."""
    blocks = program.blocks
    live = {place for place, block in enumerate(blocks) if block.writable and block.fill in ("output", "received")}
    found = 0
    for step in reversed(program.steps):
        writes, reads = set(_written(step, program)), set(_read(step, program))
        if not writes & live:
            continue
        if isinstance(step, ProgramStep):
            found += own(step)
        else:
            live -= _replaced(step, blocks)
        live |= reads
    return found


def _pointed(step: ProgramStep, program: Program) -> Iterator[int]:
    for argument in step.arguments:
        yield from (pointer.block for pointer in argument.pointers)
        if argument.tensor_map >= 0:
            yield program.tensor_maps[argument.tensor_map].block


def _written(step: ProgramStep | Memset | Copy | LibraryStep, program: Program) -> Iterator[int]:
    match step:
        case ProgramStep():
            yield from (place for place in _pointed(step, program) if program.blocks[place].writable)
        case Memset():
            yield step.block
        case Copy():
            yield step.target
        case LibraryStep():
            yield from (one.block for one in (*step.results, *(step.tensors[place] for place in step.written)))


def _read(step: ProgramStep | Memset | Copy | LibraryStep, program: Program) -> Iterator[int]:
    match step:
        case ProgramStep():
            yield from _pointed(step, program)
        case Copy():
            yield step.source
        case LibraryStep():
            yield from (one.block for one in step.tensors)
        case Memset():
            pass


def _replaced(step: Memset | Copy | LibraryStep, blocks: Sequence[Block]) -> set[int]:
    """Blocks of which nothing is left after the step."""
    match step:
        case Memset():
            return {step.block} if step.bytes >= blocks[step.block].extent else set()
        case Copy():
            return {step.target} if step.bytes >= blocks[step.target].extent else set()
        case LibraryStep():
            read = {one.block for one in step.tensors}
            return {one.block for one in step.results if _bytes(one) >= blocks[one.block].extent} - read


def _bytes(view: TensorView) -> int:
    count = ITEM_BYTES[view.dtype]
    for size in view.sizes:
        count *= size
    return count
