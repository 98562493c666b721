"""Renders a scatter into rows of zeros: a block clears a row, waits, and puts the elements in their places."""

from __future__ import annotations

from kernelwright.proposers.templates.cuda.kernels import Kernel, KernelWriter
from kernelwright.proposers.templates.genes import Gene, GenePool, Genes
from kernelwright.proposers.templates.graph import Graph
from kernelwright.proposers.templates.patterns.heavy import ScatterStep
from kernelwright.proposers.templates.sizes import Sizes

EARLY = 8  # elements of a thread that are read while the row is cleared


def gene_pool(step: ScatterStep) -> GenePool:
    return GenePool((Gene("threads", (64, 128, 256, 512), (128, 256, 64)),))


def describe(step: ScatterStep, genes: Genes) -> str:
    return f"a scatter into rows of zeros, {genes['threads']} threads a row"


def render(step: ScatterStep, genes: Genes, sizes: Sizes, graph: Graph, number: int) -> list[Kernel]:
    code = KernelWriter(genes=genes, sizes=sizes, graph=graph, step=number)
    for name in ("rows", "many", "wide"):
        code.set(name, code.size(getattr(step, name)))
    target = code.pointer(step.output, written=True, read=False)
    index, source = code.pointer(step.index, kind="long long"), code.pointer(step.source)
    lines = [
        f"constexpr int MANY = MANY_{number}, WIDE = WIDE_{number}, THREADS = {genes['threads']};",
        f"constexpr int EACH = {EARLY} < (MANY + THREADS - 1) / THREADS ? {EARLY} : (MANY + THREADS - 1) / THREADS;",
        f"float* const to = {target} + static_cast<long long>(block) * WIDE;",
        f"const long long* const places = {index} + static_cast<long long>(block) * MANY;",
        f"const float* const from = {source} + static_cast<long long>(block) * MANY;",
        "int place[EACH];",
        "float value[EACH];",
        "#pragma unroll",
        "for (int e = 0; e < EACH; ++e)",
        "  if (const int i = e * THREADS + threadIdx.x; i < MANY) place[e] = places[i], value[e] = from[i];",
        "for (int c = threadIdx.x; c < WIDE; c += THREADS) to[c] = 0.0f;",
        "__syncthreads();",
        "#pragma unroll",
        "for (int e = 0; e < EACH; ++e)",
        "  if (e * THREADS + threadIdx.x < MANY) to[place[e]] = value[e];",
        "for (int i = EACH * THREADS + threadIdx.x; i < MANY; i += THREADS) to[places[i]] = from[i];",
    ]
    body = "".join(f"  {line}\n" for line in lines)
    threads = str(genes["threads"])
    parameters = tuple(code.parameters.values())
    return [Kernel(f"scatter_{number}", parameters, body, code.plan_lines, f"rows_{number}", threads)]
