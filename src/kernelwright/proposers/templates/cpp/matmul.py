"""Renders a product of two matrices, with the pointwise steps that follow it applied to each finished block."""

from __future__ import annotations

from collections.abc import Mapping
from textwrap import indent

from kernelwright.proposers.templates.cpp import product, rows
from kernelwright.proposers.templates.genes import GenePool, Genes
from kernelwright.proposers.templates.patterns.heavy import MatmulStep
from kernelwright.proposers.templates.sizes import Sizes


def gene_pool(step: MatmulStep) -> GenePool:
    return product.gene_pool(plain=True)


def describe(step: MatmulStep, genes: Genes) -> str:
    return product.describe(genes) + (", the steps after it on each finished block" if step.epilogue else "")


def render(step: MatmulStep, genes: Genes, sizes: Sizes, pointers: Mapping[str, str]) -> str:
    left = f"Strided{{{pointers[step.left]}, {'1, m' if step.left_transposed else 'depth, 1'}}}"
    right = f"Strided{{{pointers[step.right]}, {'depth, 1' if step.right_transposed else '1, n'}}}"
    body = (
        f"const int64_t m = {sizes.expression(step.m)}, n = {sizes.expression(step.n)};\n"
        f"const int64_t depth = {sizes.expression(step.k)};\n"
    )
    if step.epilogue:
        body += rows.render_epilogue(step.epilogue, genes, sizes, pointers)
    each_row = "for (int64_t i = i0; i < i1; ++i) last(i, j0, j1);\n" if step.epilogue else ""
    if genes["swap"]:
        body += _swapped(pointers[step.output], each_row)
        left, right, to, form = right, left, "turned", ("n", "m")
    else:
        to, form = pointers[step.output], ("m", "n")
        body += f"const auto after = [&](int64_t, int64_t i0, int64_t i1, int64_t j0, int64_t j1) {{\n  {each_row}}};\n"
    operands = f"[&](int64_t) {{ return Operands{{{left}, {right}, {to}}}; }}"
    body += product.call(
        genes, "1", *form, "depth", operands, "after" if step.epilogue or genes["swap"] else "Nothing{}"
    )
    return indent(f"{{\n{indent(body, '  ')}}}\n", "  ")


def _swapped(target: str, each_row: str) -> str:
    """The transpose of the product goes into memory of its own and is turned block by block.

    Where the right operand is a long transposed matrix and the left one small, only the small one is packed then.
    """
    return (
        "static std::vector<float> turned_memory;\n"
        "if (turned_memory.size() < static_cast<size_t>(m * n) + 16) turned_memory.resize(m * n + 16);\n"
        "float* const turned = aligned(turned_memory.data());\n"
        "const auto after = [&](int64_t, int64_t j0, int64_t j1, int64_t i0, int64_t i1) {\n"
        "  for (int64_t i = i0; i < i1; ++i)\n"
        f"    for (int64_t j = j0; j < j1; ++j) {target}[i * n + j] = turned[j * m + i];\n"
        f"  {each_row}"
        "};\n"
    )
