"""Renders a scatter into zeros: a row is cleared and filled while it is in cache."""

from __future__ import annotations

from collections.abc import Mapping
from textwrap import indent

from kernelwright.proposers.templates.genes import Gene, GenePool, Genes
from kernelwright.proposers.templates.patterns.heavy import ScatterStep
from kernelwright.proposers.templates.sizes import Sizes


def gene_pool(step: ScatterStep) -> GenePool:
    return GenePool(
        (
            Gene("width", (8, 16), (16, 8)),
            Gene("grain", (4096, 16384, 65536, 262144), (16384, 65536, 4096)),
        )
    )


def describe(step: ScatterStep, genes: Genes) -> str:
    return "a scatter into rows of zeros"


def render(step: ScatterStep, genes: Genes, sizes: Sizes, pointers: Mapping[str, str]) -> str:
    body = (
        f"const int64_t rows = {sizes.expression(step.rows)}, many = {sizes.expression(step.many)};\n"
        f"const int64_t wide_ = {sizes.expression(step.wide)};\n"
        f"#pragma omp parallel for schedule(static) if (rows * wide_ >= {genes['grain']})\n"
        "for (int64_t r = 0; r < rows; ++r) {\n"
        f"  float* const to = {pointers[step.output]} + r * wide_;\n"
        "  std::fill(to, to + wide_, 0.0f);\n"
        f"  for (int64_t i = r * many; i < (r + 1) * many; ++i) to[{pointers[step.index]}[i]] = "
        f"{pointers[step.source]}[i];\n"
        "}\n"
    )
    return indent(f"{{\n{indent(body, '  ')}}}\n", "  ")
