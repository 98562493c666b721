"""Renders contractions: as products of matrices side by side where subscripts are plain, else by windows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from textwrap import indent

from kernelwright.proposers.templates.cpp import nests, product, rows, windows
from kernelwright.proposers.templates.genes import GenePool, Genes
from kernelwright.proposers.templates.graph import ONE, Extent, total
from kernelwright.proposers.templates.patterns.contractions import ContractionForm, ContractionOperand, ContractionStep
from kernelwright.proposers.templates.patterns.rows import HALVES
from kernelwright.proposers.templates.sizes import Sizes

STORED = ("float32", *HALVES)  # what packing converts to float


def covered(step: ContractionStep) -> bool:
    """Whether a faster way than loops over elements is known."""
    dtypes = {step.form.dtype, *(operand.dtype for operand in step.form.operands)}
    if not dtypes <= set(STORED):
        return False
    return any(form is not None for form in (plain_form(step.form), windows.parsed(step.form), windows.met(step.form)))


def gene_pool(step: ContractionStep) -> GenePool:
    if not covered(step):
        return nests.gene_pool(step.nest)
    return product.gene_pool(plain=False)


def describe(step: ContractionStep, genes: Genes) -> str:
    if not covered(step):
        return nests.describe(step.nest, genes)
    how = "products side by side" if plain_form(step.form) else "a product over windows"
    text = f"{how}, {product.describe(genes)}"
    return text + (", the steps after it on each finished block" if step.epilogue else "")


def render(step: ContractionStep, genes: Genes, sizes: Sizes, pointers: Mapping[str, str]) -> str:
    if not covered(step):
        after = {"unroll": 2, "prefetch": 0} | genes
        return nests.render(step.nest, genes, sizes, pointers) + (
            rows.render(step.epilogue, after, sizes, pointers) if step.epilogue else ""
        )
    plain = plain_form(step.form)
    last = rows.render_epilogue(step.epilogue, genes, sizes, pointers) if step.epilogue else ""
    if plain is None:
        body = windows.render(step, genes, sizes, pointers)
    else:
        body = _products(step, plain, genes, sizes, pointers)
    return indent(f"{{\n{indent(last + body, '  ')}}}\n", "  ")


@dataclass(frozen=True)
class PlainForm:
    """Axes of one matrix product, outermost first, and those over which products lie side by side."""

    left: int  # which operand has the rows
    rows: tuple[int, ...]
    cols: tuple[int, ...]
    side: tuple[int, ...]
    depth: tuple[int, ...]
    joined: bool  # the depth is one run in both operands


def plain_form(form: ContractionForm) -> PlainForm | None:
    if any(operand.guarded for operand in form.operands):
        return None
    several = [axis for axis in form.kept if not form.axes[axis].extent.single]
    end = form.axes[several[-1]].role if several else "second"
    left = 1 if end == "first" else 0
    cols: tuple[int, ...] = ()
    if end != "batch":
        cols = _run(form, form.operands[1 - left], [axis for axis in several if form.axes[axis].role == end], tail=True)
    role = ("first", "second")[left]
    own = [axis for axis in several if form.axes[axis].role == role]
    over = _run(form, form.operands[left], own, tail=False)
    side = tuple(axis for axis in several if axis not in (*over, *cols))
    depth = tuple(axis for axis in form.of("depth") if not form.axes[axis].extent.single)
    joined = all(len(_run_in(form, operand, list(depth))) == len(depth) for operand in form.operands)
    return PlainForm(left, over, cols, side, depth, joined)


def stride_of(operand: ContractionOperand, axis: int) -> Extent:
    """In elements; axes that do not occur have none."""
    found, behind = Extent(0, 0), ONE
    for subscript in reversed(operand.subscripts):
        coefficient = subscript.coefficient(axis)
        if coefficient is not None:
            more = coefficient * behind
            found = Extent(found.first + more.first, found.second + more.second)
        behind = behind * subscript.size
    return found


def _result_stride(form: ContractionForm, axis: int) -> Extent:
    return total(tuple(form.axes[other].extent for other in form.kept if other > axis))


def _run(form: ContractionForm, operand: ContractionOperand, axes: list[int], *, tail: bool) -> tuple[int, ...]:
    """The last axes that lie as one both in the operand and in the result."""
    run = _run_in(form, operand, axes)
    if not tail:
        return tuple(axis for n, axis in enumerate(run) if all(_next(form, one, two) for one, two in pairwise(run[n:])))
    return tuple(axis for axis in run if _contiguous(form, axis, run))


def _contiguous(form: ContractionForm, axis: int, run: tuple[int, ...]) -> bool:
    """Nothing but members of the run lies behind the axis in the result."""
    return all(other in run or form.axes[other].extent.single for other in form.kept if other > axis)


def _next(form: ContractionForm, one: int, two: int) -> bool:
    return _result_stride(form, one) == _result_stride(form, two) * form.axes[two].extent


def _run_in(form: ContractionForm, operand: ContractionOperand, axes: list[int]) -> tuple[int, ...]:
    run: list[int] = []
    for axis in reversed(axes):
        if run and stride_of(operand, axis) != stride_of(operand, run[0]) * form.axes[run[0]].extent:
            break
        run.insert(0, axis)
    return tuple(run)


class StrideText:
    """Strides as C++ over the sizes of a kernel's arguments."""

    def __init__(self, form: ContractionForm, sizes: Sizes) -> None:
        self.form, self.sizes = form, sizes

    def of(self, operand: ContractionOperand, axis: int) -> str:
        parts = []
        for dim, subscript in enumerate(operand.subscripts):
            coefficient = subscript.coefficient(axis)
            if coefficient is not None:
                behind = [s.size for s in operand.subscripts[dim + 1 :]]
                parts.append(self.product((coefficient, *behind)))
        return " + ".join(parts) or "0"

    def start(self, operand: ContractionOperand) -> str:
        """Where the first element lies: constants of subscripts."""
        parts = []
        for dim, subscript in enumerate(operand.subscripts):
            if subscript.constant:
                behind = tuple(s.size for s in operand.subscripts[dim + 1 :])
                parts.append(self.product((Extent(subscript.constant, subscript.constant), *behind)))
        return " + ".join(parts) or "0"

    def result(self, axis: int) -> str:
        return self.product(tuple(self.form.axes[other].extent for other in self.form.kept if other > axis))

    def product(self, extents: tuple[Extent, ...]) -> str:
        several = [extent for extent in extents if not extent.single]
        return " * ".join(self.sizes.expression(extent) for extent in several) or "1"

    def extent(self, axes: tuple[int, ...]) -> str:
        return self.product(tuple(self.form.axes[axis].extent for axis in axes))


def _products(step: ContractionStep, plain: PlainForm, genes: Genes, sizes: Sizes, pointers: Mapping[str, str]) -> str:
    form, text = step.form, StrideText(step.form, sizes)
    left, right = form.operands[plain.left], form.operands[1 - plain.left]
    names = (step.first, step.second)
    data = [pointers[names[plain.left]], pointers[names[1 - plain.left]]]
    pitch = text.result(plain.rows[-1]) if plain.rows else "1"
    body = (
        f"const int64_t count = {text.extent(plain.side)}, m = {text.extent(plain.rows)};\n"
        f"const int64_t n = {text.extent(plain.cols)}, depth = {text.extent(plain.depth)}, pitch = {pitch};\n"
    )
    body += _starts(plain, text, left, right)
    outer = [
        text.of(left, plain.rows[-1]) if plain.rows else "0",
        text.of(right, plain.cols[-1]) if plain.cols else "1",
    ]
    loaders = []
    for number, operand in enumerate((left, right)):
        place = f"{data[number]} + at[{number}]"
        if plain.joined:
            inner = text.of(operand, plain.depth[-1]) if plain.depth else "1"
            loaders.append(f"Strided{{{place}, {outer[number]}, {inner}}}")
        else:
            body += _table(f"inner{number}", plain.depth, text, operand)
            loaders.append(f"Spread{{{place}, {outer[number]}, inner{number}.data()}}")
    to = f"{pointers[step.output]} + at[2]"
    if form.dtype != "float32":
        to = f"stored_as({to}, pitch)"
    made = f"  return Operands{{{', '.join(loaders)}, {to}, pitch}};\n"
    operands = "[&](int64_t which) {\n  const auto at = starts(which);\n" + made + "}"
    after = "Nothing{}"
    if step.epilogue:
        body += (
            "const auto after = [&](int64_t which, int64_t i0, int64_t i1, int64_t j0, int64_t j1) {\n"
            "  for (int64_t i = i0; i < i1; ++i) {\n"
            "    const int64_t place = starts(which)[2] + i * pitch + j0;\n"
            "    last(place / cols, place % cols, place % cols + j1 - j0);\n  }\n};\n"
        )
        after = "after"
    return body + product.call(genes, "count", "m", "n", "depth", operands, after)


def _starts(plain: PlainForm, text: StrideText, left: ContractionOperand, right: ContractionOperand) -> str:
    """Where the operands and the result of product number `which` begin."""
    lines = [f"std::array<int64_t, 3> at{{{text.start(left)}, {text.start(right)}, 0}};"]
    for number, axis in enumerate(reversed(plain.side)):
        last = number + 1 == len(plain.side)
        lines.append(f"const int64_t i{axis} = which{'' if last else f' % ({text.extent((axis,))})'};")
        if not last:
            lines.append(f"which /= {text.extent((axis,))};")
        for place, stride in enumerate((text.of(left, axis), text.of(right, axis), text.result(axis))):
            if stride != "0":
                lines.append(f"at[{place}] += i{axis} * ({stride});")
    lines.append("return at;")
    return "const auto starts = [&]([[maybe_unused]] int64_t which) {\n" + indent("\n".join(lines), "  ") + "\n};\n"


def _table(name: str, axes: tuple[int, ...], text: StrideText, operand: ContractionOperand) -> str:
    """Offsets over several axes, the last one running fastest."""
    loops = "".join(f"for (int64_t i{axis} = 0; i{axis} < {text.extent((axis,))}; ++i{axis}) " for axis in axes)
    place = " + ".join(f"i{axis} * ({text.of(operand, axis)})" for axis in axes)
    return f"std::vector<int64_t> {name};\n{loops}{name}.push_back({place});\n"
