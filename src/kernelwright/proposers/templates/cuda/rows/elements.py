"""Writes what is done to the elements of a vector: loads, pointwise steps, and values kept in registers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from kernelwright.proposers.templates.cuda.kernel_writer import TYPES, expression
from kernelwright.proposers.templates.patterns.rows import Instruction, RowProgram, Span

PICKED = 16  # as many elements a thread may have of a row in which one is picked out


@dataclass
class Elements:
    """One vector of a row: `head` loads it, `each` is done for every element j of it, `tail` stores.

    `c` is the first column of the vector, `k` the number of the chunk it is in the thread's share of the row.
    """

    program: RowProgram
    pointer: Callable[[str], str]  # of a tensor or memory, in CUDA
    column: Callable[[int], str]  # the memory of a reduction over the rows
    keep: Sequence[int] = ()
    columns: Mapping[int, str] = field(default_factory=dict)  # of loads that are the same for every row: chunks in `k`
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
            self.head.append(f"alignas(16) float h{place}[WIDTH];")
            self.head.append(f"load(h{place}, k{place}[k]);")
            return f"h{place}[j]"
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
        if place in self.columns:
            here = f"k < {self.columns[place]}"
            self.head.append(f"load(l{place}, {here} ? k{place}[{here} ? k : 0] : {source} + {at});")
        else:
            self.head.append(f"load(l{place}, {source} + {at});")
        return f"l{place}[j]"

    def lines(self) -> list[str]:
        each = ["#pragma unroll", "for (int j = 0; j < WIDTH; ++j) {", *(f"  {line}" for line in self.each), "}"]
        return [*self.head, *(each if self.each else []), *self.tail]


@dataclass
class SingleElement:
    """One element of a full value, computed alone: its loads as soon as the place is known, the rest in its turn.

    What a few lanes keep of the row is asked of the lane that has it.
    """

    program: RowProgram
    gather: int
    pointer: Callable[[str], str]
    kept: Sequence[int] = ()
    loads: list[str] = field(default_factory=list)
    steps: list[str] = field(default_factory=list)
    _names: dict[int, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        values, self.index = self.program.instructions[self.gather].operands
        self.result = self._value(values)

    def _value(self, place: int) -> str:
        i = self.program.instructions[place]
        if not i.span & Span.col:
            return f"v{place}"
        if i.operation == "position":
            return f"v{self.index}"
        if place not in self._names:
            self._names[place] = f"g{self.gather}_{place}"
            if i.operation == "load":
                at = f"row * COLS + v{self.index}" if i.span == Span.full else f"v{self.index}"
                source = f"{self.pointer(i.tensor)}[{at}]"
                if place in self.kept:
                    near = f"picked<WIDTH, CHUNKS, TEAM < 32 ? TEAM : 32, WHOLE>(k{place}, v{self.index})"
                    source = f"TEAM <= 32 && PARTS == 1 && CHUNKS * WIDTH <= {PICKED} ? {near} : {source}"
                self.loads.append(f"const float {self._names[place]} = {source};")
            else:
                text = expression(i.operation, [self._value(operand) for operand in i.operands], i.dtype)
                self.steps.append(f"const {TYPES[i.dtype]} {self._names[place]} = {text};")
        return self._names[place]
