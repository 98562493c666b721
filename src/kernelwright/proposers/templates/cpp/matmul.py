"""Renders a product of two matrices, with the pointwise steps that follow it applied to each finished block."""

from __future__ import annotations

from collections.abc import Mapping
from textwrap import indent

from kernelwright.proposers.templates.cpp import product, rows
from kernelwright.proposers.templates.genes import GenePool, Genes
from kernelwright.proposers.templates.patterns.heavy import MatmulStep
from kernelwright.proposers.templates.sizes import Sizes


def gene_pool(step: MatmulStep) -> GenePool:
    return product.gene_pool(direct=True)


def describe(step: MatmulStep, genes: Genes) -> str:
    return product.describe(genes) + (", the steps after it on each finished block" if step.last else "")


def render(step: MatmulStep, genes: Genes, sizes: Sizes, pointers: Mapping[str, str]) -> str:
    left = "1, m" if step.left_transposed else "depth, 1"
    right = "depth, 1" if step.right_transposed else "1, n"
    last, definitions = "Nothing{}", ""
    if step.last:
        definitions = rows.render_last(step.last, genes, sizes, pointers)
        last = "last"
    operands = (
        f"[&](int64_t) {{ return Operands{{Strided{{{pointers[step.left]}, {left}}}, "
        f"Strided{{{pointers[step.right]}, {right}}}, {pointers[step.output]}}}; }}"
    )
    body = (
        f"const int64_t m = {sizes.expression(step.m)}, n = {sizes.expression(step.n)};\n"
        f"const int64_t depth = {sizes.expression(step.k)};\n"
        + definitions
        + product.call(genes, "1", "m", "n", "depth", operands, last)
    )
    return indent(f"{{\n{indent(body, '  ')}}}\n", "  ")
