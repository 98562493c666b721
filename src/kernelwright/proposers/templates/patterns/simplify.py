"""Rewrites a row program's instructions where that saves a pass or a costly function, and drops dead ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kernelwright.proposers.templates.patterns.rows import Instruction

COLS = 2  # Span.col, which cannot be imported here


def simplified(instructions: Sequence[Instruction], wanted: Sequence[int]) -> tuple[list[Instruction], list[int]]:
    """The instructions that are needed, rewritten, and the new places of the wanted ones."""
    rewriting = _Rewriting()
    at: dict[int, int] = {}
    for place, instruction in enumerate(instructions):
        moved = replace(instruction, operands=tuple(at[operand] for operand in instruction.operands))
        at[place] = rewriting.rewritten(moved)
    return _alive(rewriting.made, [at[place] for place in wanted])


class _Rewriting:
    def __init__(self) -> None:
        self.made: list[Instruction] = []
        self._known: dict[Instruction, int] = {}

    def add(self, instruction: Instruction) -> int:
        if instruction not in self._known:
            self._known[instruction] = len(self.made)
            self.made.append(instruction)
        return self._known[instruction]

    def rewritten(self, instruction: Instruction) -> int:
        for rule in (self._exp_of_log, self._sum_of_chosen, self._sum_of_scaled):
            place = rule(instruction)
            if place is not None:
                return place
        return self.add(instruction)

    def _exp_of_log(self, instruction: Instruction) -> int | None:
        """exp(a - log(s)) is exp(a) / s: the gradient of a log-softmax then shares its exponential with the sum."""
        if instruction.operation != "exp":
            return None
        inner = self.made[instruction.operands[0]]
        if inner.operation != "sub" or self.made[inner.operands[1]].operation != "log":
            return None
        divisor = self.made[inner.operands[1]].operands[0]
        if self.made[divisor].span & COLS:
            return None
        above = self.add(replace(instruction, operands=(inner.operands[0],), span=self.made[inner.operands[0]].span))
        return self.add(replace(instruction, operation="div", operands=(above, divisor)))

    def _sum_of_chosen(self, instruction: Instruction) -> int | None:
        """The sum of a row that is zero but at one position is what stands there."""
        if not _sums_row(instruction):
            return None
        inner = self.made[instruction.operands[0]]
        if inner.operation != "where":
            return None
        condition, chosen, other = (self.made[place] for place in inner.operands)
        zero = other.operation == "number" and other.number == 0
        one = condition.operation == "eq" and self.made[condition.operands[0]].operation == "position"
        if not zero or not one or self.made[condition.operands[1]].span & COLS or chosen.span & COLS:
            return None
        return inner.operands[1]

    def _sum_of_scaled(self, instruction: Instruction) -> int | None:
        """sum(a * s) with s the same along the row is sum(a) * s.

        Worth it when s comes from a reduction of the same row, which the sum then need not wait for, or when sum(a)
        is known without a pass.
        """
        if not _sums_row(instruction):
            return None
        varying, scales = self._factors(instruction.operands[0])
        if not scales or not varying:
            return None
        known = len(varying) == 1 and self._sum_of_chosen(replace(instruction, operands=(varying[0],))) is not None
        if not known and not any(self._late(place) for place, _ in scales):
            return None
        inner = varying[0]
        shape = replace(self.made[instruction.operands[0]], operation="mul")
        for place in varying[1:]:
            span = self.made[inner].span | self.made[place].span
            inner = self.add(replace(shape, operands=(inner, place), span=span))
        total = self.rewritten(replace(instruction, operands=(inner,)))
        for place, operation in scales:
            span = self.made[total].span | self.made[place].span
            total = self.add(replace(shape, operation=operation, operands=(total, place), span=span))
        return total

    def _factors(self, place: int) -> tuple[list[int], list[tuple[int, str]]]:
        """What a product varies by along the row, and what it is scaled with: each with "mul" or "div"."""
        i = self.made[place]
        if not i.span & COLS:
            return [], [(place, "mul")]
        if i.operation == "mul":
            (left, by), (right, with_) = (self._factors(operand) for operand in i.operands)
            return left + right, by + with_
        if i.operation == "div" and not self.made[i.operands[1]].span & COLS:
            varying, scales = self._factors(i.operands[0])
            return varying, [*scales, (i.operands[1], "div")]
        return [place], []

    def _late(self, place: int) -> bool:
        """Whether a value waits for a reduction along the row."""
        i = self.made[place]
        if i.operation == "reduce":
            return i.over == COLS
        return any(self._late(operand) for operand in i.operands)


def _sums_row(instruction: Instruction) -> bool:
    return instruction.operation == "reduce" and instruction.kind == "sum" and instruction.over == COLS


def _alive(made: list[Instruction], wanted: list[int]) -> tuple[list[Instruction], list[int]]:
    alive = set(wanted)
    for place in range(len(made) - 1, -1, -1):
        if place in alive:
            alive |= set(made[place].operands)
    kept = sorted(alive)
    at = {place: new for new, place in enumerate(kept)}
    moved = [replace(made[place], operands=tuple(at[o] for o in made[place].operands)) for place in kept]
    return moved, [at[place] for place in wanted]
