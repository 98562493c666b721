"""Writes an operand of a product that is made element by element while it is read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from kernelwright.proposers.templates.cuda.expressions import TYPES, expression
from kernelwright.proposers.templates.cuda.folding import Made
from kernelwright.proposers.templates.cuda.pen import Pen
from kernelwright.proposers.templates.cuda.stages import stage_of
from kernelwright.proposers.templates.cuda.writer import Writer
from kernelwright.proposers.templates.patterns.rows import RowProgram, Span


def written_operand(pen: Pen, made: Made) -> tuple[str, str]:
    """A structure that reads vectors of the operand, and the expression that makes one."""
    inner = replace(pen, parameters={})
    program, n = made.program, pen.step
    places = _needed(program, made.place)
    writer = Writer(
        program=program,
        stage=stage_of(program, 0),
        genes=pen.genes,
        sizes=pen.sizes,
        graph=pen.graph,
        step=pen.step,
        setup=pen.setup,
        parameters=inner.parameters,
    )
    varying = [place for place in places if program.instructions[place].span & Span.col]
    loads = [place for place in varying if program.instructions[place].operation == "load"]
    singles = writer.singles(set(places), {})
    lines = [f"const {TYPES[program.instructions[p].dtype]} v{p} = {_value(program, p)};" for p in varying]
    pen.define(f"OPERAND_COLS_{n}", pen.size(program.cols))
    at = {Span.full: "at", Span.col: f"at % OPERAND_COLS_{n}"}
    sources = {p: program.instructions[p] for p in loads}
    fetched = [f"load(l{p}, {inner.pointer(i.tensor)} + {at[i.span]});" for p, i in sources.items()]
    members = list(inner.parameters.values())
    for one in members:
        pen.pointer(one.name, kind=one.type)
    text = [
        f"struct Operand_{n} {{",
        *(f"  const {one.type}* {one.pointer};" for one in members),
        "  template <int Width>",
        "  __device__ __forceinline__ void read(float (&to)[Width], const long long at) const {",
        *(f"    alignas(16) float l{p}[Width];" for p in loads),
        *(f"    {line}" for line in (*fetched, *singles)),
        "#pragma unroll",
        "    for (int j = 0; j < Width; ++j) {",
        *(f"      {line}" for line in lines),
        f"      to[j] = v{made.place};",
        "    }",
        "  }",
        "};",
    ]
    return "".join(f"{line}\n" for line in text), f"Operand_{n}{{{', '.join(one.pointer for one in members)}}}"


def _value(program: RowProgram, place: int) -> str:
    i = program.instructions[place]
    return f"l{place}[j]" if i.operation == "load" else expression(i.operation, [f"v{p}" for p in i.operands], i.dtype)


def _needed(program: RowProgram, place: int) -> Sequence[int]:
    found = {place}
    for at in range(place, -1, -1):
        if at in found:
            found |= set(program.instructions[at].operands)
    return sorted(found)
