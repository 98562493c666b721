"""Lets small products make their left operand while they read it, so that no step before them has to store it.

A gradient through an activation is such an operand: two products read it. A large product reads each element so often
that making it once is cheaper, so the plan decides by size.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from kernelwright.proposers.templates.cuda import dots
from kernelwright.proposers.templates.cuda.convolution import PooledConvolution
from kernelwright.proposers.templates.cuda.expressions import TYPES, expression
from kernelwright.proposers.templates.cuda.pen import Pen
from kernelwright.proposers.templates.cuda.stages import stage_of
from kernelwright.proposers.templates.cuda.writer import Writer
from kernelwright.proposers.templates.patterns.heavy import MatmulStep
from kernelwright.proposers.templates.patterns.rows import RowProgram, Span
from kernelwright.proposers.templates.plan import Buffer, Step, inputs_of


@dataclass(frozen=True)
class FoldedProduct:
    """A product whose left operand is the value at `place` of a program over its elements."""

    product: MatmulStep
    program: RowProgram
    place: int
    pattern: ClassVar[str] = "product"


def folded(
    steps: Sequence[Step | PooledConvolution], buffers: Sequence[Buffer]
) -> dict[int, FoldedProduct | RowProgram | None]:
    """What changes, by number of the step; None: nothing is left of it."""
    changed: dict[int, FoldedProduct | RowProgram | None] = {}
    own = {buffer.name for buffer in buffers}
    for number, step in enumerate(steps):
        if not isinstance(step, RowProgram):
            continue
        gone = set()
        for store in step.stores:
            readers = _readers(steps, store.tensor, number) if store.tensor in own else {}
            if readers and _of_elements_alone(step, store.place):
                gone.add(store)
                changed |= {n: FoldedProduct(product, step, store.place) for n, product in readers.items()}
        if gone:
            left = tuple(store for store in step.stores if store not in gone)
            changed[number] = replace(step, stores=left) if left else None
    return changed


def _readers(steps: Sequence[Step | PooledConvolution], tensor: str, writer: int) -> dict[int, MatmulStep]:
    """All who read the buffer, if they are products that can make it themselves."""
    found: dict[int, MatmulStep] = {}
    for number, step in enumerate(steps):
        if number == writer or tensor not in reads_of(step):
            continue
        if not isinstance(step, MatmulStep) or step.left != tensor or not dots.covers(step):
            return {}
        if tensor == step.right or (step.last and tensor in inputs_of(step.last)):
            return {}
        found[number] = step
    return found


def reads_of(step: Step | PooledConvolution) -> set[str]:
    if isinstance(step, PooledConvolution):
        return reads_of(step.convolution)
    last = getattr(step, "last", None)
    return {*inputs_of(step), *(inputs_of(last) if last else ())}


def _of_elements_alone(program: RowProgram, place: int) -> bool:
    i = program.instructions[place]
    if i.operation in ("reduce", "gather", "position"):
        return False
    if i.operation == "load":
        return i.span != Span.row and i.dtype == "float32" and i.period is None
    return i.span != Span.row and all(_of_elements_alone(program, operand) for operand in i.operands)


def written_left(pen: Pen, step: FoldedProduct) -> tuple[str, str]:
    """A structure that reads vectors of the operand, and the expression that makes one."""
    inner = replace(pen, parameters={})
    program, n = step.program, pen.step
    places = _needed(program, step.place)
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
    pen.define(f"LEFT_COLS_{n}", pen.size(program.cols))
    at = {Span.full: "at", Span.col: f"at % LEFT_COLS_{n}"}
    sources = {p: program.instructions[p] for p in loads}
    fetched = [f"load(l{p}, {inner.pointer(i.tensor)} + {at[i.span]});" for p, i in sources.items()]
    members = list(inner.parameters.values())
    for one in members:
        pen.pointer(one.name, kind=one.type)
    text = [
        f"struct Left_{n} {{",
        *(f"  const {one.type}* {one.pointer};" for one in members),
        "  template <int Width>",
        "  __device__ __forceinline__ void read(float (&to)[Width], const long long at) const {",
        *(f"    alignas(16) float l{p}[Width];" for p in loads),
        *(f"    {line}" for line in (*fetched, *singles)),
        "#pragma unroll",
        "    for (int j = 0; j < Width; ++j) {",
        *(f"      {line}" for line in lines),
        f"      to[j] = v{step.place};",
        "    }",
        "  }",
        "};",
    ]
    return "".join(f"{line}\n" for line in text), f"Left_{n}{{{', '.join(one.pointer for one in members)}}}"


def _value(program: RowProgram, place: int) -> str:
    i = program.instructions[place]
    return f"l{place}[j]" if i.operation == "load" else expression(i.operation, [f"v{p}" for p in i.operands], i.dtype)


def _needed(program: RowProgram, place: int) -> Sequence[int]:
    found = {place}
    for at in range(place, -1, -1):
        if at in found:
            found |= set(program.instructions[at].operands)
    return sorted(found)
