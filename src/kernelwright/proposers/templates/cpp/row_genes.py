"""What can be varied in a row program for the CPU, and what a choice means in words."""

from __future__ import annotations

from kernelwright.proposers.templates.cpp.expressions import COSTLY
from kernelwright.proposers.templates.genes import Gene, GenePool, Genes
from kernelwright.proposers.templates.patterns.rows import RowProgram, Span


def gene_pool(program: RowProgram) -> GenePool:
    passes = program.reduces_cols
    stores = any(program.instructions[s.place].span == Span.full for s in program.stores)
    genes = [
        Gene("width", (8, 16), (16, 8)),
        Gene("unroll", (1, 2, 4, 8), (4, 2, 8)),
        Gene("grain", (4096, 16384, 65536, 262144), (16384, 65536, 4096)),
        Gene("prefetch", (0, 128, 512, 2048), (512, 0, 2048)),
    ]
    if stores:
        genes.append(Gene("stream", (False, True), (True, False)))
    if not program.rows.single:
        genes.append(Gene("block", (0, 1, 4, 16, 64), (0, 16, 4)))
        if passes:
            genes.append(Gene("split", (1, 2, 4, 16), (4, 1)))
    if passes and kept(program):
        genes.append(Gene("keep", (False, True), (True, False)))
    if program.sums_columns:
        genes.append(Gene("joint", (1, 2, 4), (2, 4, 1)))
    return GenePool(tuple(genes))


def describe(program: RowProgram, genes: Genes) -> str:
    parts = [f"vectors of {genes['width']} floats, {genes['unroll']} at a time"]
    if not program.rows.single:
        block = genes["block"]
        parts.append("equal shares of rows for each thread" if block == 0 else f"rows handed out {block} at a time")
    if program.reduces_cols:
        count = 1 + max(i.phase for i in program.instructions)
        parts.append(f"{count} passes over a row while it is in cache")
    if genes.get("keep"):
        parts.append("costly values kept between passes")
    if genes.get("stream"):
        parts.append("streaming stores")
    if genes.get("joint", 1) != 1:
        parts.append(f"{genes['joint']} rows at once into the column sums")
    if genes["prefetch"]:
        parts.append(f"prefetch {genes['prefetch']} floats ahead")
    return ", ".join(parts)


def kept(program: RowProgram) -> list[int]:
    """Costly values that more than one pass needs."""
    uses: dict[int, set[int]] = {}
    last = max(i.phase for i in program.instructions)
    for place, instruction in enumerate(program.instructions):
        along = instruction.operation == "reduce" and instruction.over == Span.col
        if along:
            _mark(program, instruction.operands[0], instruction.phase - 1, uses)
        elif instruction.operation == "reduce":
            _mark(program, instruction.operands[0], last, uses)
        if any(store.place == place for store in program.stores) and instruction.span == Span.full:
            _mark(program, place, last, uses)
    costly = (p for p, i in enumerate(program.instructions) if i.operation in COSTLY and i.span == Span.full)
    return [place for place in costly if len(uses.get(place, ())) > 1]


def _mark(program: RowProgram, place: int, phase: int, uses: dict[int, set[int]]) -> None:
    if program.instructions[place].span != Span.full:
        return
    uses.setdefault(place, set()).add(phase)
    if program.instructions[place].operation not in ("reduce", "gather"):
        for operand in program.instructions[place].operands:
            _mark(program, operand, phase, uses)
