"""Programs with steps of torch's, for where torch is not beside them, or where the candidate's kernels are left out.

A program is data, so each of these is another program, and launchers carry it out as any other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from kernelwright.contracts.layout import ALIGNMENT, GRANULE, GUARD
from kernelwright.contracts.program import Block, Copy, LibraryStep, Memset, Program, ProgramStep
from kernelwright.errors import CannotDecide

KEPT = "results of torch"


def after(at: int, count: int) -> int:
    """Where the next result begins."""
    return at + -(-count // ALIGNMENT) * ALIGNMENT


def kept_bytes(program: Program) -> int:
    """The size of the allocation."""
    at = 0
    for step in program.steps:
        for view in step.changed if isinstance(step, LibraryStep) else ():
            at = after(at, view.extent)
    return max(1, -(-at // GRANULE)) * GRANULE


def with_kept_results(program: Program) -> Program:
    """Copies in place of torch's steps, from a block behind all others that has their results in order."""
    base = max((block.base + block.bytes for block in program.blocks), default=program.base) + GUARD
    count = kept_bytes(program)
    if base + count > program.base + program.span:
        raise CannotDecide("the results of torch's steps do not fit into the addresses beside the tensors")
    number, at = len(program.blocks), 0
    steps: list[ProgramStep | Memset | Copy | LibraryStep] = []
    for step in program.steps:
        if not isinstance(step, LibraryStep):
            steps.append(step)
            continue
        for view in step.changed:
            steps.append(Copy(view.block, view.offset, number, at, view.extent))
            at = after(at, view.extent)
    block = Block(KEPT, base, count, 0, count, writable=False)
    return replace(program, blocks=(*program.blocks, block), steps=tuple(steps))


def without_own_kernels(program: Program, own: Sequence[bool]) -> Iterator[Program]:
    """What torch gives without the candidate: the program without the candidate's own launches and, where it has one
    output, that output in turn as a copy of each thing of its size that a step has made so far. Of a candidate whose
    kernels only copy what torch computes, one of them is right. `own` tells which launches are the candidate's."""
    of_launches = iter(own)
    steps = tuple(step for step in program.steps if not (isinstance(step, ProgramStep) and next(of_launches)))
    yield replace(program, steps=steps)
    outputs = [number for number, block in enumerate(program.blocks) if block.fill == "output"]
    if len(outputs) != 1:
        return
    (output,) = outputs
    size = program.blocks[output].extent
    for position in range(len(steps), 0, -1):
        for source, offset in _made(steps[position - 1], program, size):
            if source != output:
                yield replace(program, steps=(*steps[:position], Copy(output, 0, source, offset, size)))


def _made(step: ProgramStep | Memset | Copy | LibraryStep, program: Program, size: int) -> list[tuple[int, int]]:
    """The places of so many bytes that the step writes, as blocks and offsets."""
    match step:
        case LibraryStep():
            places = [(view.block, view.offset) for view in step.changed if view.extent == size]
        case Copy():
            places = [(step.target, step.target_offset)] if step.bytes == size else []
        case ProgramStep():
            pointed = [pointer for argument in step.arguments for pointer in argument.pointers]
            writable = [one for one in pointed if program.blocks[one.block].writable]
            places = [(one.block, one.offset) for one in writable if _room(program, one.block, one.offset) >= size]
        case Memset():
            places = []
    return list(dict.fromkeys(places))


def _room(program: Program, block: int, offset: int) -> int:
    return program.blocks[block].extent - offset
