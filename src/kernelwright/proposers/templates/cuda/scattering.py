"""Renders a scatter into rows of zeros: a block clears a row, waits, and puts the elements in their places."""

from __future__ import annotations

from kernelwright.proposers.templates.cuda.kernels import Kernel
from kernelwright.proposers.templates.cuda.pen import Pen
from kernelwright.proposers.templates.genes import Gene, GenePool, Genes
from kernelwright.proposers.templates.graph import Graph
from kernelwright.proposers.templates.patterns.heavy import ScatterStep
from kernelwright.proposers.templates.sizes import Sizes


def gene_pool(step: ScatterStep) -> GenePool:
    return GenePool((Gene("threads", (64, 128, 256, 512), (128, 256, 64)),))


def describe(step: ScatterStep, genes: Genes) -> str:
    return f"a scatter into rows of zeros, {genes['threads']} threads a row"


def render(step: ScatterStep, genes: Genes, sizes: Sizes, graph: Graph, number: int) -> list[Kernel]:
    pen = Pen(genes=genes, sizes=sizes, graph=graph, step=number)
    for name in ("rows", "many", "wide"):
        pen.set(name, pen.size(getattr(step, name)))
    target = pen.pointer(step.output, written=True, read=False)
    index, source = pen.pointer(step.index, kind="long long"), pen.pointer(step.source)
    lines = [
        f"constexpr long long MANY = MANY_{number}, WIDE = WIDE_{number};",
        f"float* const to = {target} + block * WIDE;",
        f"for (long long c = threadIdx.x; c < WIDE; c += {genes['threads']}) to[c] = 0.0f;",
        "__syncthreads();",
        f"for (long long i = threadIdx.x; i < MANY; i += {genes['threads']})",
        f"  to[{index}[block * MANY + i]] = {source}[block * MANY + i];",
    ]
    body = "".join(f"  {line}\n" for line in lines)
    threads = str(genes["threads"])
    parameters = tuple(pen.parameters.values())
    return [Kernel(f"scatter_{number}", parameters, body, pen.plan_lines, f"rows_{number}", threads)]
