"""Rewrites a row program's instructions where that saves a pass or a costly function, and drops dead ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kernelwright.proposers.templates.patterns.rows import Instruction


def simplified(instructions: Sequence[Instruction], wanted: Sequence[int]) -> tuple[list[Instruction], list[int]]:
    """The instructions that are needed, rewritten, and the new places of the wanted ones."""
    made: list[Instruction] = []
    known: dict[Instruction, int] = {}
    at: dict[int, int] = {}

    def add(instruction: Instruction) -> int:
        if instruction not in known:
            known[instruction] = len(made)
            made.append(instruction)
        return known[instruction]

    for place, instruction in enumerate(instructions):
        moved = replace(instruction, operands=tuple(at[operand] for operand in instruction.operands))
        at[place] = _rewritten(moved, made, add)
    return _alive(made, [at[place] for place in wanted])


def _rewritten(instruction: Instruction, made: list[Instruction], add) -> int:  # type: ignore[no-untyped-def]
    for rule in (_exp_of_log, _sum_of_chosen, _sum_of_scaled):
        place = rule(instruction, made, add)
        if place is not None:
            return int(place)
    return int(add(instruction))


def _exp_of_log(instruction: Instruction, made: list[Instruction], add) -> int | None:  # type: ignore[no-untyped-def]
    """exp(a - log(s)) is exp(a) / s: the gradient of a log-softmax then shares its exponential with the sum."""
    if instruction.operation != "exp":
        return None
    inner = made[instruction.operands[0]]
    if inner.operation != "sub" or made[inner.operands[1]].operation != "log":
        return None
    logged = made[inner.operands[1]]
    divisor = logged.operands[0]
    if made[divisor].span & 2:
        return None
    above = add(replace(instruction, operands=(inner.operands[0],), span=made[inner.operands[0]].span))
    return int(add(replace(instruction, operation="div", operands=(above, divisor))))


def _sum_of_chosen(instruction: Instruction, made: list[Instruction], add) -> int | None:  # type: ignore[no-untyped-def]
    """The sum of a row that is zero but at one position is what stands there."""
    if instruction.operation != "reduce" or instruction.kind != "sum" or instruction.over != 2:
        return None
    inner = made[instruction.operands[0]]
    if inner.operation != "where":
        return None
    condition, chosen, other = (made[place] for place in inner.operands)
    zero = other.operation == "number" and other.number == 0
    one = condition.operation == "eq" and made[condition.operands[0]].operation == "position"
    if not zero or not one or made[condition.operands[1]].span & 2 or chosen.span & 2:
        return None
    return inner.operands[1]


def _sum_of_scaled(instruction: Instruction, made: list[Instruction], add) -> int | None:  # type: ignore[no-untyped-def]
    """sum(a * s) with s the same along the row is sum(a) * s, worth it when sum(a) is known without a pass."""
    if instruction.operation != "reduce" or instruction.kind != "sum" or instruction.over != 2:
        return None
    inner = made[instruction.operands[0]]
    if inner.operation != "mul":
        return None
    for values, scale in (inner.operands, inner.operands[::-1]):
        if not made[scale].span & 2:
            known = _sum_of_chosen(replace(instruction, operands=(values,)), made, add)
            if known is not None:
                return int(add(replace(inner, operands=(known, scale), span=instruction.span)))
    return None


def _alive(made: list[Instruction], wanted: list[int]) -> tuple[list[Instruction], list[int]]:
    alive = set(wanted)
    for place in range(len(made) - 1, -1, -1):
        if place in alive:
            alive |= set(made[place].operands)
    kept = sorted(alive)
    at = {place: new for new, place in enumerate(kept)}
    moved = [replace(made[place], operands=tuple(at[o] for o in made[place].operands)) for place in kept]
    return moved, [at[place] for place in wanted]
