"""What each stage of a row program computes, which values are kept from pass to pass, and which methods apply.

Sums around a row's mean are recognised, which parts of a row can find without knowing that mean, and stages in which a
thread can take whole columns.
"""

from __future__ import annotations

from dataclasses import dataclass

from kernelwright.proposers.templates.cuda.kernels import COSTLY
from kernelwright.proposers.templates.patterns.rows import Instruction, RowProgram, Span, Store


@dataclass(frozen=True)
class RowStage:
    """`passes[p]` are the reductions along rows that pass p makes; stores and columns belong to the last pass."""

    number: int
    needed: frozenset[int]
    passes: tuple[tuple[int, ...], ...]
    stores: tuple[Store, ...]
    row_stores: tuple[tuple[str, int], ...]
    columns: tuple[int, ...]  # reductions of full values over the rows
    totals: tuple[int, ...]  # reductions of row values over the rows

    @property
    def works(self) -> bool:
        return bool(self.stores or self.columns or self.totals or self.row_stores)

    @property
    def finishes(self) -> bool:
        return bool(self.stores or self.columns)


def stage_of(program: RowProgram, number: int) -> RowStage:
    instructions = program.instructions
    stores = [s for s in program.stores if instructions[s.place].stage == number]
    full = tuple(s for s in stores if instructions[s.place].span == Span.full)
    row = tuple((s.tensor, s.place) for s in stores if instructions[s.place].span == Span.row)
    over = [p for p, i in enumerate(instructions) if over_rows(i) and i.stage == number + 1]
    targets = [*(s.place for s in full), *(p for _, p in row)] + [instructions[p].operands[0] for p in over]
    needed = _needed_for(program, targets)
    along = sorted(p for p in needed if along_row(instructions[p]))
    count = max((instructions[p].phase for p in along), default=0)
    return RowStage(
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


def passed_on(program: RowProgram, stage: RowStage) -> bool:
    """Whether a kernel after this stage's may ask for its single numbers."""
    later = (stage_of(program, number) for number in range(stage.number + 1, program.stages))
    columns = any(program.instructions[store.place].span == Span.col for store in program.stores)
    return columns or any(one.works for one in later)


@dataclass(frozen=True)
class HeldValues:
    """What a thread may have of a row before and between its passes."""

    values: tuple[int, ...]  # loads and costly values that more than one pass needs
    fetched: tuple[int, ...]  # the loads among them
    rows: tuple[int, ...]  # loads of one element for the row
    columns: tuple[int, ...]  # loads that are the same for every row
    late: tuple[int, ...]  # those of them that are needed only after all passes


def held(program: RowProgram, stage: RowStage) -> HeldValues:
    loads = {p for p in stage.needed if program.instructions[p].operation == "load"}
    values = kept(program, stage)

    def of(span: Span) -> tuple[int, ...]:
        return tuple(sorted(p for p in loads if program.instructions[p].span == span))

    columns = of(Span.col)
    passing = _needed_for(
        program, [program.instructions[p].operands[0] for reductions in stage.passes for p in reductions]
    )
    late = tuple(p for p in columns if p not in passing)
    return HeldValues(tuple(values), tuple(p for p in values if p in loads), of(Span.row), columns, late)


def _needed_for(program: RowProgram, targets: list[int]) -> set[int]:
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


def kept(program: RowProgram, stage: RowStage) -> list[int]:
    """Loads and costly values over whole rows that more than one pass needs, in order."""
    uses: dict[int, set[int]] = {}
    for number, reductions in enumerate(stage.passes):
        for place in reductions:
            _mark(program, program.instructions[place].operands[0], number, uses)
    for place in (*(s.place for s in stage.stores), *(program.instructions[c].operands[0] for c in stage.columns)):
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


@dataclass(frozen=True)
class MomentProduct:
    """A sum of y times the distance from the mean; `total` is the sum of y, where a pass makes that too."""

    place: int
    factor: int
    total: int | None


@dataclass(frozen=True)
class Moments:
    """The sum of a row's values and, in the next pass, only sums of products with their distance from the mean."""

    number: int  # of the first of the two passes
    sum: int
    values: int
    squares: int | None  # the sum of the squared distance
    products: tuple[MomentProduct, ...]
    others: tuple[int, ...]  # further reductions of the first pass

    @property
    def factors(self) -> dict[int, str]:
        """By a product's place, the variable with the sum of what the distance is multiplied with."""
        return {p.place: f"y{p.place}" if p.total is None else f"a{p.total}" for p in self.products}

    @property
    def names(self) -> tuple[str, ...]:
        """The variables that parts of a row exchange, the sum of its values first."""
        squares = [] if self.squares is None else [f"a{self.squares}"]
        products = [f"a{product.place}" for product in self.products]
        others = [f"a{place}" for place in self.others]
        return tuple(dict.fromkeys([f"a{self.sum}", *squares, *products, *self.factors.values(), *others]))


def moments(program: RowProgram, stage: RowStage) -> Moments | None:
    for number in range(len(stage.passes) - 1):
        for place in stage.passes[number]:
            found = _around(program, stage, number, place)
            if found:
                return found
    return None


def _around(program: RowProgram, stage: RowStage, number: int, total: int) -> Moments | None:
    """If all of the next pass is around the mean that comes from this sum."""
    instructions = program.instructions
    if instructions[total].kind != "sum":
        return None
    values = instructions[total].operands[0]
    firsts = {instructions[p].operands[0]: p for p in stage.passes[number] if instructions[p].kind == "sum"}
    squares: list[int] = []
    products: list[MomentProduct] = []
    for place in stage.passes[number + 1]:
        inner = instructions[instructions[place].operands[0]]
        if instructions[place].kind != "sum" or inner.operation != "mul":
            return None
        distances = [p for p in inner.operands if _is_distance(program, p, values, total)]
        if len(distances) == 2:
            squares.append(place)
            continue
        others = [p for p in inner.operands if p not in distances]
        if len(distances) != 1 or instructions[others[0]].phase > number:
            return None
        products.append(MomentProduct(place, others[0], firsts.get(others[0])))
    rest = tuple(p for p in stage.passes[number] if p != total)
    if len(squares) > 1 or any(instructions[p].kind.startswith("arg") for p in rest):
        return None
    return Moments(number, total, values, squares[0] if squares else None, tuple(products), rest)


def _is_distance(program: RowProgram, place: int, values: int, total: int) -> bool:
    distance = program.instructions[place]
    if distance.operation != "sub" or distance.operands[0] != values:
        return False
    mean = program.instructions[distance.operands[1]]
    if mean.operation != "div" or mean.operands[0] != total:
        return False
    return program.instructions[mean.operands[1]].number == program.cols


MANY_COLUMNS = 1 << 18  # columns from which on each multiprocessor has enough of them


def suits_column_threads(program: RowProgram, stage: RowStage) -> bool:
    """One pass over a row must do, and what rows come to must be floats."""
    pair = moments(program, stage)
    kinds = [program.instructions[p].kind for reductions in stage.passes for p in reductions]
    one_pass = len(stage.passes) == 1 or (pair is not None and len(stage.passes) == 2)
    plain = not any(kind.startswith("arg") for kind in kinds)
    floats = all(program.instructions[p].dtype == "float32" for p in row_results(program, stage))
    return bool(stage.columns) and not stage.totals and one_pass and plain and floats


def row_results(program: RowProgram, stage: RowStage) -> list[int]:
    """What a row has come to after its passes and its elements need."""
    found: set[int] = set()
    seen: set[int] = set()
    left = [*(s.place for s in stage.stores), *(program.instructions[p].operands[0] for p in stage.columns)]
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
