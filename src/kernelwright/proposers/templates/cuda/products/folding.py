"""Lets small products make their left operand while they read it, and makes sums of columns products with ones.

A gradient through an activation is such an operand: two products and a sum read it, and no step before them has to
store it. A large product reads each element so often that making it once is cheaper, so the plan decides by size.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from kernelwright.proposers.templates.cuda.contractions.nested import NestedContraction
from kernelwright.proposers.templates.cuda.kernels import TYPES, KernelWriter, expression
from kernelwright.proposers.templates.cuda.products import dots
from kernelwright.proposers.templates.cuda.rows.analysis import stage_of
from kernelwright.proposers.templates.cuda.rows.writer import Writer
from kernelwright.proposers.templates.cuda.windows.convolution import PooledConvolution
from kernelwright.proposers.templates.graph import ONE
from kernelwright.proposers.templates.patterns.heavy import MatmulStep
from kernelwright.proposers.templates.patterns.rows import RowProgram, Span
from kernelwright.proposers.templates.plan import Buffer, Step, inputs_of


@dataclass(frozen=True)
class FoldedOperand:
    """The value at `place` of a program, made element by element."""

    program: RowProgram
    place: int


@dataclass(frozen=True)
class FoldedProduct:
    """A product that makes its left operand itself."""

    product: MatmulStep
    left: FoldedOperand
    pattern: ClassVar[str] = "product"


@dataclass(frozen=True)
class ColumnSum:
    """The sum of all rows of `right` as a product with a row of ones."""

    product: MatmulStep
    right: FoldedOperand
    pattern: ClassVar[str] = "product"


Changed = FoldedProduct | ColumnSum | RowProgram | None

PlannedStep = Step | PooledConvolution | NestedContraction


def folded(steps: Sequence[PlannedStep], buffers: Sequence[Buffer]) -> dict[int, Changed]:
    """What changes, by number of the step; None: nothing is left of it."""
    changed: dict[int, Changed] = {}
    own = {buffer.name for buffer in buffers}
    for number, step in enumerate(steps):
        if not isinstance(step, RowProgram):
            continue
        gone = set()
        for store in step.stores:
            readers = _readers(steps, store.tensor, number) if store.tensor in own else {}
            if readers and _of_elements_alone(step, store.place):
                gone.add(store)
                changed |= {n: FoldedProduct(one, FoldedOperand(step, store.place)) for n, one in readers.items()}
        left = replace(step, stores=tuple(store for store in step.stores if store not in gone))
        if gone:
            changed[number] = left if left.stores else None
        if total := _column_sum(left):
            changed[number] = total
    return changed


def _column_sum(program: RowProgram) -> ColumnSum | None:
    """The program, if a sum of columns is all that it stores."""
    if len(program.stores) != 1:
        return None
    store = program.stores[0]
    i = program.instructions[store.place]
    sums = i.operation == "reduce" and i.kind == "sum" and i.over == Span.row and i.span == Span.col
    if not sums or not _of_elements_alone(program, i.operands[0]):
        return None
    product = MatmulStep("", "", store.tensor, ONE, program.cols, program.rows, False, False)
    return ColumnSum(product, FoldedOperand(program, i.operands[0]))


def _readers(steps: Sequence[PlannedStep], tensor: str, writer: int) -> dict[int, MatmulStep]:
    """All who read the buffer, if they are products that can make it themselves."""
    found: dict[int, MatmulStep] = {}
    for number, step in enumerate(steps):
        if number == writer or tensor not in reads_of(step):
            continue
        if not isinstance(step, MatmulStep) or step.left != tensor or not dots.covers(step):
            return {}
        if tensor == step.right or (step.epilogue and tensor in inputs_of(step.epilogue)):
            return {}
        found[number] = step
    return found


def reads_of(step: PlannedStep) -> set[str]:
    if isinstance(step, PooledConvolution):
        return reads_of(step.convolution)
    if isinstance(step, NestedContraction):
        return reads_of(step.contraction) | reads_of(step.nest) - {step.contraction.output}
    last = getattr(step, "epilogue", None)
    return {*inputs_of(step), *(inputs_of(last) if last else ())}


def _of_elements_alone(program: RowProgram, place: int) -> bool:
    i = program.instructions[place]
    if i.operation in ("reduce", "gather", "position", "index") or i.at is not None:
        return False
    if i.operation == "load":
        return i.span != Span.row and i.dtype == "float32" and i.period is None and not i.memory
    return i.span != Span.row and all(_of_elements_alone(program, operand) for operand in i.operands)


def written_operand(code: KernelWriter, made: FoldedOperand) -> tuple[str, str]:
    """A structure that reads vectors of the operand, and the expression that makes one."""
    inner = replace(code, parameters={})
    program, n = made.program, code.step
    places = _needed(program, made.place)
    writer = Writer(
        program=program,
        stage=stage_of(program, 0),
        genes=code.genes,
        sizes=code.sizes,
        graph=code.graph,
        step=code.step,
        setup=code.setup,
        parameters=inner.parameters,
        numbers="OPERAND_NUMBER",
    )
    varying = [place for place in places if program.instructions[place].span & Span.col]
    loads = [place for place in varying if program.instructions[place].operation == "load"]
    singles = writer.singles(set(places), {})
    lines = [f"const {TYPES[program.instructions[p].dtype]} v{p} = {_element(program, p)};" for p in varying]
    code.define(f"OPERAND_COLS_{n}", code.size(program.cols))
    at = {Span.full: "at", Span.col: f"at % OPERAND_COLS_{n}"}
    sources = {p: program.instructions[p] for p in loads}
    fetched = [f"load(l{p}, {inner.pointer(i.tensor)} + {at[i.span]});" for p, i in sources.items()]
    members = list(inner.parameters.values())
    for one in members:
        code.pointer(one.name, kind=one.type)
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


def _element(program: RowProgram, place: int) -> str:
    i = program.instructions[place]
    return f"l{place}[j]" if i.operation == "load" else expression(i.operation, [f"v{p}" for p in i.operands], i.dtype)


def _needed(program: RowProgram, place: int) -> Sequence[int]:
    found = {place}
    for at in range(place, -1, -1):
        if at in found:
            found |= set(program.instructions[at].operands)
    return sorted(found)
