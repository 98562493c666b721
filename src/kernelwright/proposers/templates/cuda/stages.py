"""What each stage of a row program computes, and which values are worth keeping from pass to pass."""

from __future__ import annotations

from dataclasses import dataclass

from kernelwright.proposers.templates.cuda.expressions import COSTLY
from kernelwright.proposers.templates.patterns.rows import Instruction, RowProgram, Span


@dataclass(frozen=True)
class Stage:
    """`passes[p]` are the reductions along rows that pass p makes; stores and columns belong to the last pass."""

    number: int
    needed: frozenset[int]
    passes: tuple[tuple[int, ...], ...]
    stores: tuple[tuple[str, int], ...]
    row_stores: tuple[tuple[str, int], ...]
    columns: tuple[int, ...]  # reductions of full values over the rows
    totals: tuple[int, ...]  # reductions of row values over the rows

    @property
    def works(self) -> bool:
        return bool(self.stores or self.columns or self.totals or self.row_stores)

    @property
    def finishes(self) -> bool:
        return bool(self.stores or self.columns)


def stage_of(program: RowProgram, number: int) -> Stage:
    instructions = program.instructions
    stores = [(s.tensor, s.place) for s in program.stores if instructions[s.place].stage == number]
    full = tuple((t, p) for t, p in stores if instructions[p].span == Span.full)
    row = tuple((t, p) for t, p in stores if instructions[p].span == Span.row)
    over = [p for p, i in enumerate(instructions) if over_rows(i) and i.stage == number + 1]
    targets = [p for _, p in (*full, *row)] + [instructions[p].operands[0] for p in over]
    needed = _needed(program, targets)
    along = sorted(p for p in needed if along_row(instructions[p]))
    count = max((instructions[p].phase for p in along), default=0)
    return Stage(
        number,
        frozenset(needed),
        tuple(tuple(p for p in along if instructions[p].phase == n + 1) for n in range(count)),
        full,
        row,
        tuple(p for p in over if instructions[p].span == Span.col),
        tuple(p for p in over if instructions[p].span == Span.one),
    )


def along_row(instruction: Instruction) -> bool:
    return instruction.operation == "reduce" and instruction.over == Span.col


def over_rows(instruction: Instruction) -> bool:
    return instruction.operation == "reduce" and instruction.over == Span.row


def passed_on(program: RowProgram, stage: Stage) -> bool:
    """Whether a kernel after this stage's may ask for its single numbers."""
    later = (stage_of(program, number) for number in range(stage.number + 1, program.stages))
    columns = any(program.instructions[store.place].span == Span.col for store in program.stores)
    return columns or any(one.works for one in later)


@dataclass(frozen=True)
class Held:
    """What a thread may have of a row before and between its passes."""

    values: tuple[int, ...]  # loads and costly values that more than one pass needs
    fetched: tuple[int, ...]  # the loads among them
    rows: tuple[int, ...]  # loads of one element for the row
    columns: tuple[int, ...]  # loads that are the same for every row
    late: tuple[int, ...]  # those of them that are needed only after all passes


def held(program: RowProgram, stage: Stage) -> Held:
    loads = {p for p in stage.needed if program.instructions[p].operation == "load"}
    values = kept(program, stage)

    def of(span: Span) -> tuple[int, ...]:
        return tuple(sorted(p for p in loads if program.instructions[p].span == span))

    columns = of(Span.col)
    passing = _needed(program, [program.instructions[p].operands[0] for reductions in stage.passes for p in reductions])
    late = tuple(p for p in columns if p not in passing)
    return Held(tuple(values), tuple(p for p in values if p in loads), of(Span.row), columns, late)


def _needed(program: RowProgram, targets: list[int]) -> set[int]:
    """Down to what is stored: loads, single values and results of reductions over the rows."""
    found: set[int] = set()
    left = list(targets)
    while left:
        place = left.pop()
        instruction = program.instructions[place]
        if place not in found and instruction.span != Span.one:
            found.add(place)
            if not over_rows(instruction):
                left += instruction.operands
    return found


def kept(program: RowProgram, stage: Stage) -> list[int]:
    """Loads and costly values over whole rows that more than one pass needs, in order."""
    uses: dict[int, set[int]] = {}
    for number, reductions in enumerate(stage.passes):
        for place in reductions:
            _mark(program, program.instructions[place].operands[0], number, uses)
    for place in (*(p for _, p in stage.stores), *(program.instructions[c].operands[0] for c in stage.columns)):
        _mark(program, place, len(stage.passes), uses)
    worth = [p for p in uses if program.instructions[p].operation in (*COSTLY, "load")]
    return sorted(p for p in worth if len(uses[p]) > 1)


def _mark(program: RowProgram, place: int, number: int, uses: dict[int, set[int]]) -> None:
    instruction = program.instructions[place]
    if instruction.span != Span.full:
        return
    uses.setdefault(place, set()).add(number)
    if instruction.operation not in ("reduce", "gather"):
        for operand in instruction.operands:
            _mark(program, operand, number, uses)


def recounted(program: RowProgram) -> tuple[int, ...]:
    """Reductions over the rows that are all of the first stage and need no pass: any block can find them itself."""
    stage = stage_of(program, 0)
    only = stage.totals and not (stage.passes or stage.stores or stage.columns or stage.row_stores)
    single = any(program.instructions[store.place].span == Span.one for store in program.stores)
    return stage.totals if only and not single else ()
