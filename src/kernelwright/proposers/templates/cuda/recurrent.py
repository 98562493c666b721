"""Renders a recurrent step in CUDA: a block for each row of the batch, which goes through time by itself.

Threads own units. All of them read the state of the time before, which a barrier has made complete, and go down the
turned weight side by side.
"""

from __future__ import annotations

from kernelwright.contracts.cuda import TYPES
from kernelwright.proposers.templates.cuda.kernels import HEADERS, Kernel, KernelWriter
from kernelwright.proposers.templates.cuda.nests import FUNCTIONS
from kernelwright.proposers.templates.genes import Gene, GenePool, Genes
from kernelwright.proposers.templates.graph import Graph
from kernelwright.proposers.templates.nests.nest_code import computed
from kernelwright.proposers.templates.nests.recurrent_bodies import time_lines, unit_lines
from kernelwright.proposers.templates.patterns.recurrent import CELLS, RecurrentStep
from kernelwright.proposers.templates.sizes import Sizes


def gene_pool(step: RecurrentStep) -> GenePool:
    return GenePool((Gene("threads", (128, 256, 512, 1024), (512, 256, 1024)),))


def describe(step: RecurrentStep, genes: Genes) -> str:
    return f"{step.cell} through time, a block of {genes['threads']} threads for each row of the batch"


def render(step: RecurrentStep, genes: Genes, sizes: Sizes, graph: Graph, number: int) -> list[Kernel]:
    writer = KernelWriter(genes=genes, sizes=sizes, graph=graph, step=number)
    kind, value, cell = TYPES[step.dtype], computed(step.dtype), CELLS[step.cell]
    names = {name: writer.pointer(name, kind=kind) for name in step.inputs}
    names[step.output] = writer.pointer(step.output, written=True, read=False, kind=kind)
    for name, extent in (("TIMES", step.times), ("BATCH", step.batch), ("UNITS", step.units)):
        writer.define(f"{name}_{number}", writer.size(extent))
    output, first, weight = names[step.output], names[step.states[0]], names[step.weight]
    lines = [
        *(f"constexpr long long {name} = {name}_{number};" for name in ("TIMES", "BATCH", "UNITS")),
        "const long long b = block;",
        "for (long long n = 0; n < TIMES; ++n) {",
        *(f"  {line}" for line in time_lines(step, "long long")),
        f"  const {kind}* const state = before < 0 ? {first} + b * UNITS : {output} + (before * BATCH + b) * UNITS;",
        f"  for (long long j = threadIdx.x; j < UNITS; j += {genes['threads']}) {{",
        *(f"    {value} a{gate} = 0;" for gate in range(cell.gates)),
        "    for (long long i = 0; i < UNITS; ++i) {",
        f"      const {value} s = static_cast<{value}>(state[i]);",
        f"      const {kind}* const w = {weight} + i * ({cell.gates} * UNITS) + j;",
        *(f"      a{gate} += s * static_cast<{value}>(w[{gate} * UNITS]);" for gate in range(cell.gates)),
        "    }",
        *(f"    {line}" for line in unit_lines(step, lambda name: names[name], kind)),
        "  }",
        "  __syncthreads();",
        "}",
    ]
    headers = (HEADERS[step.dtype],) if step.dtype in HEADERS else ()
    return [
        Kernel(
            f"recurrent_{number}",
            tuple(writer.parameters.values()),
            "".join(f"  {line}\n" for line in lines),
            writer.plan_lines,
            writer.size(step.batch),
            str(genes["threads"]),
            heavy=True,
            needs=(*headers, FUNCTIONS),
        )
    ]
