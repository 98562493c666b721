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
    after = "Nothing{}"
    if step.epilogue:
        sides = (
            "int64_t j0, int64_t j1, int64_t i0, int64_t i1"
            if genes["swap"]
            else ("int64_t i0, int64_t i1, int64_t j0, int64_t j1")
        )
        body += f"const auto after = [&](int64_t, {sides}) {{\n"
        body += "  for (int64_t i = i0; i < i1; ++i) last(i, j0, j1);\n};\n"
        after = "after"
    to = pointers[step.output]
    operands = f"{right}, {left}, turned_into({to}, n), n" if genes["swap"] else f"{left}, {right}, {to}, n"
    form = ("n", "m") if genes["swap"] else ("m", "n")
    body += product.call(genes, "1", *form, "depth", f"[&](int64_t) {{ return Operands{{{operands}}}; }}", after)
    return indent(f"{{\n{indent(body, '  ')}}}\n", "  ")
