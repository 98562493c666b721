"""Makes a program that only goes over the elements of a product the last step of that product."""

from __future__ import annotations

from dataclasses import replace

from kernelwright.proposers.templates.patterns.heavy import ConvolutionStep, MatmulStep
from kernelwright.proposers.templates.patterns.rows import RowProgram, Span
from kernelwright.proposers.templates.plan import Buffer, Plan, Step, inputs_of

Product = MatmulStep | ConvolutionStep


def fused(plan: Plan) -> Plan:
    steps: list[Step] = []
    buffers = list(plan.buffers)
    for number, step in enumerate(plan.steps):
        before = steps[-1] if steps else None
        if isinstance(before, MatmulStep | ConvolutionStep) and isinstance(step, RowProgram):
            program = _in_shape_of(step, before)
            if _follows(program, before):
                steps[-1] = _joined(before, program, buffers, plan.steps[number + 1 :])
                continue
        steps.append(step)
    return replace(plan, steps=tuple(steps), buffers=tuple(buffers))


def _joined(product: Product, program: RowProgram, buffers: list[Buffer], later: tuple[Step, ...]) -> Step:
    """The product goes where its last step puts its result, element over element, if nobody else reads it."""
    target = program.stores[0].tensor
    lone = not any(product.output in inputs_of(step) for step in later)
    buffer = next((buffer for buffer in buffers if buffer.name == product.output), None)
    if lone and buffer is not None and target not in inputs_of(program):
        moved = (replace(i, tensor=target) if i.tensor == product.output else i for i in program.instructions)
        program = replace(program, instructions=tuple(moved))
        product = replace(product, output=target)
        buffers.remove(buffer)
    return replace(product, last=program)


def _shape(product: Product) -> tuple[object, object]:
    if isinstance(product, MatmulStep):
        return product.m, product.n
    return product.batch * product.filters, product.tall * product.broad


def _in_shape_of(program: RowProgram, product: Product) -> RowProgram:
    """A program over all elements alike may as well go over the rows of the product before it."""
    alike = program.rows.single and not program.reduces_cols and not program.reduces_rows
    if isinstance(product, MatmulStep):
        rows, cols = product.m, product.n
    else:
        rows, cols = product.batch * product.filters, product.tall * product.broad
    return replace(program, rows=rows, cols=cols) if alike and program.cols == rows * cols else program


def _follows(program: RowProgram, product: Product) -> bool:
    if isinstance(product, ConvolutionStep) and product.kind != "forward":
        return False
    simple = not program.reduces_cols and not program.reduces_rows and program.stages == 1
    stored = all(program.instructions[s.place].span == Span.full for s in program.stores)
    alone = product.last is None and product.output in inputs_of(program)
    return simple and stored and alone and (program.rows, program.cols) == _shape(product)
