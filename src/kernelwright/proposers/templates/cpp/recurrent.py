"""Renders a recurrent step in C++: threads over rows of the batch, each of which goes through time by itself."""

from __future__ import annotations

from collections.abc import Mapping
from textwrap import indent

from kernelwright.contracts.cpp import TYPES
from kernelwright.proposers.templates.genes import Gene, GenePool, Genes
from kernelwright.proposers.templates.nests.nest_code import computed
from kernelwright.proposers.templates.nests.recurrent_bodies import time_lines, unit_lines
from kernelwright.proposers.templates.patterns.recurrent import CELLS, RecurrentStep
from kernelwright.proposers.templates.sizes import Sizes


def gene_pool(step: RecurrentStep) -> GenePool:
    return GenePool(
        (
            Gene("width", (8, 16), (16, 8)),
            Gene("grain", (4096, 16384, 65536, 262144), (16384, 65536, 4096)),
        )
    )


def describe(step: RecurrentStep, genes: Genes) -> str:
    return f"{step.cell} through time, rows of the batch by threads"


def render(step: RecurrentStep, genes: Genes, sizes: Sizes, pointers: Mapping[str, str]) -> str:
    """The products with the state go down the rows of the turned weight, which the compiler makes vectors of."""
    cell, value, kind = CELLS[step.cell], computed(step.dtype), TYPES[step.dtype]
    output, first = pointers[step.output], pointers[step.states[0]]
    lines = [
        f"const int64_t TIMES = {sizes.expression(step.times)}, BATCH = {sizes.expression(step.batch)}, "
        f"UNITS = {sizes.expression(step.units)};",
        f"const int64_t WIDE = {cell.gates} * UNITS;",
        f"#pragma omp parallel for schedule(static) if (double(TIMES) * BATCH * UNITS * WIDE >= {genes['grain']})",
        "for (int64_t b = 0; b < BATCH; ++b) {",
        f"  std::vector<{value}> sums(WIDE);",
        "  for (int64_t n = 0; n < TIMES; ++n) {",
        *(f"    {line}" for line in time_lines(step, "int64_t")),
        f"    std::fill(sums.begin(), sums.end(), {value}(0));",
        f"    const {kind}* const state = before < 0 ? {first} + b * UNITS : {output} + (before * BATCH + b) * UNITS;",
        f"    {value}* const to = sums.data();",
        "    for (int64_t i = 0; i < UNITS; ++i) {",
        f"      const {value} s = static_cast<{value}>(state[i]);",
        f"      const {kind}* const w = {pointers[step.weight]} + i * WIDE;",
        f"      for (int64_t g = 0; g < WIDE; ++g) to[g] += s * static_cast<{value}>(w[g]);",
        "    }",
        "    for (int64_t j = 0; j < UNITS; ++j) {",
        *(f"      const {value} a{gate} = to[{gate} * UNITS + j];" for gate in range(cell.gates)),
        *(f"      {line}" for line in unit_lines(step, lambda name: pointers[name], kind)),
        "    }",
        "  }",
        "}",
    ]
    return indent("{\n" + indent("\n".join(lines), "  ") + "\n}\n", "  ")
