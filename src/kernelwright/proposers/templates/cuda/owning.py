"""Recognises stages in which threads may own columns: what rows come to is found first, in one pass."""

from __future__ import annotations

from kernelwright.proposers.templates.cuda.moments import moments
from kernelwright.proposers.templates.cuda.stages import Stage
from kernelwright.proposers.templates.patterns.rows import RowProgram, Span

MANY = 1 << 18  # columns from which on each multiprocessor has enough of them


def covers(program: RowProgram, stage: Stage) -> bool:
    """One pass over a row must do, and what rows come to must be floats."""
    pair = moments(program, stage)
    kinds = [program.instructions[p].kind for reductions in stage.passes for p in reductions]
    one_pass = len(stage.passes) == 1 or (pair is not None and len(stage.passes) == 2)
    plain = not any(kind.startswith("arg") for kind in kinds)
    floats = all(program.instructions[p].dtype == "float32" for p in row_results(program, stage))
    return bool(stage.columns) and not stage.totals and one_pass and plain and floats


def row_results(program: RowProgram, stage: Stage) -> list[int]:
    """What a row has come to after its passes and its elements need."""
    found: set[int] = set()
    seen: set[int] = set()
    left = [*(p for _, p in stage.stores), *(program.instructions[p].operands[0] for p in stage.columns)]
    while left:
        place = left.pop()
        i = program.instructions[place]
        if place in seen or i.span == Span.one:
            continue
        seen.add(place)
        if i.span & Span.col:
            left += () if i.operation == "reduce" else i.operands
        elif i.phase:
            found.add(place)
    return sorted(found)
