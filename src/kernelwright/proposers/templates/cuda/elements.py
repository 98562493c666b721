"""Writes what is done to the elements of a vector: loads, pointwise steps, and values kept in registers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from kernelwright.proposers.templates.cuda.expressions import TYPES, expression
from kernelwright.proposers.templates.patterns.rows import Instruction, RowProgram, Span


@dataclass
class Elements:
    """One vector of a row: `head` loads it, `each` is done for every element j of it, `tail` stores.

    `c` is the first column of the vector, `k` the number of the chunk it is in the thread's share of the row.
    """

    program: RowProgram
    pointer: Callable[[str], str]  # of a tensor or memory, in CUDA
    column: Callable[[int], str]  # the memory of a reduction over the rows
    keep: Sequence[int] = ()
    held: set[int] = field(default_factory=set)  # kept values that an earlier pass has computed
    head: list[str] = field(default_factory=list)
    each: list[str] = field(default_factory=list)
    tail: list[str] = field(default_factory=list)
    _names: dict[int, str] = field(default_factory=dict)

    def value(self, place: int) -> str:
        if place not in self._names:
            self._names[place] = self._made(place, self.program.instructions[place])
        return self._names[place]

    def store(self, tensor: str, place: int, how: str) -> None:
        name = f"s_{tensor}"
        self.head.append(f"alignas(16) float {name}[WIDTH];")
        self.each.append(f"{name}[j] = {self.value(place)};")
        self.tail.append(f"{how}({self.pointer(tensor)} + row * COLS + c, {name});")

    def _made(self, place: int, i: Instruction) -> str:
        if not i.span & Span.col:
            return f"v{place}"
        if place in self.held:
            return f"k{place}[k][j]"
        if i.operation == "position":
            return "static_cast<long long>(c + j)"
        if i.operation in ("load", "reduce"):
            return self._loaded(place, i)
        name = f"v{place}"
        operands = [self.value(operand) for operand in i.operands]
        self.each.append(f"const {TYPES[i.dtype]} {name} = {expression(i.operation, operands, i.dtype)};")
        if place in self.keep:
            self.each.append(f"k{place}[k][j] = {name};")
            self.held.add(place)
        return name

    def _loaded(self, place: int, i: Instruction) -> str:
        at = "row * COLS + c" if i.span == Span.full else "c"
        source = self.pointer(i.tensor) if i.operation == "load" else self.column(place)
        if place in self.keep:
            self.head.append(f"load(k{place}[k], {source} + {at});")
            self.held.add(place)
            return f"k{place}[k][j]"
        self.head.append(f"alignas(16) float l{place}[WIDTH];")
        self.head.append(f"load(l{place}, {source} + {at});")
        return f"l{place}[j]"

    def lines(self) -> list[str]:
        each = ["#pragma unroll", "for (int j = 0; j < WIDTH; ++j) {", *(f"  {line}" for line in self.each), "}"]
        return [*self.head, *(each if self.each else []), *self.tail]


def single_element(program: RowProgram, place: int, index: str, pointer: Callable[[str], str]) -> str:
    """One element of a full value, computed alone."""
    lines: list[str] = []
    seen: dict[int, str] = {}

    def value(at: int) -> str:
        if at not in seen:
            i = program.instructions[at]
            if not i.span & Span.col:
                return f"v{at}"
            seen[at] = f"e{at}"
            if i.operation == "load":
                text = f"{pointer(i.tensor)}[{'row * COLS + c' if i.span == Span.full else 'c'}]"
            elif i.operation == "position":
                text = "c"
            else:
                text = expression(i.operation, [value(operand) for operand in i.operands], i.dtype)
            lines.append(f"const {TYPES[i.dtype]} e{at} = {text};")
        return seen[at]

    result = value(place)
    return f"[&](const long long c) {{ {' '.join(lines)} return {result}; }}({index})"
