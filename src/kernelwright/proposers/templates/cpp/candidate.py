"""Puts rendered steps together: prelude, buffers and the contract's function around them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kernelwright.contracts.cpp import CPP, TYPES
from kernelwright.proposers.templates.cpp import (
    contraction,
    convolution,
    matmul,
    nests,
    pooling,
    recurrent,
    rows,
    scatter,
)
from kernelwright.proposers.templates.cpp.prelude import prelude
from kernelwright.proposers.templates.genes import Gene, GenePool, Genes
from kernelwright.proposers.templates.patterns.contractions import ContractionStep
from kernelwright.proposers.templates.patterns.heavy import (
    ConvolutionStep,
    MatmulStep,
    PoolBackwardStep,
    PoolStep,
    ScatterStep,
)
from kernelwright.proposers.templates.patterns.nests import NestStep
from kernelwright.proposers.templates.patterns.recurrent import RecurrentStep
from kernelwright.proposers.templates.patterns.rows import RowProgram
from kernelwright.proposers.templates.plan import Buffer, Step, StepPlan, homes, residents, touched
from kernelwright.proposers.templates.sizes import Sizes
from kernelwright.tasks.model import Signature


@dataclass(frozen=True)
class CppStepRenderer:
    """How one kind of step is written."""

    gene_pool: Callable[[Any], GenePool]
    describe: Callable[[Any, Genes], str]
    render: Callable[[Any, Genes, Sizes, Mapping[str, str]], str]


RENDERERS: dict[type, CppStepRenderer] = {
    RowProgram: CppStepRenderer(rows.gene_pool, rows.describe, rows.render),
    MatmulStep: CppStepRenderer(matmul.gene_pool, matmul.describe, matmul.render),
    ConvolutionStep: CppStepRenderer(convolution.gene_pool, convolution.describe, convolution.render),
    ContractionStep: CppStepRenderer(contraction.gene_pool, contraction.describe, contraction.render),
    ScatterStep: CppStepRenderer(scatter.gene_pool, scatter.describe, scatter.render),
    PoolStep: CppStepRenderer(pooling.gene_pool, pooling.describe, pooling.render),
    PoolBackwardStep: CppStepRenderer(pooling.gene_pool, pooling.describe, pooling.render),
    NestStep: CppStepRenderer(nests.gene_pool, nests.describe, nests.render),
    RecurrentStep: CppStepRenderer(recurrent.gene_pool, recurrent.describe, recurrent.render),
}
ATTENTION, MIXED = False, True
SHARED = ("width", "grain")  # one value for all steps of a kernel


def gene_pool(plan: StepPlan) -> GenePool:
    """The genes of all steps; those of a second and further step are numbered."""
    genes: dict[str, Gene] = {}
    for number, step in enumerate(plan.steps):
        for gene in RENDERERS[type(step)].gene_pool(step).genes:
            name = gene_name(gene.name, number)
            genes.setdefault(name, Gene(name, gene.values, gene.good))
    return GenePool(tuple(genes.values()))


def gene_name(name: str, number: int) -> str:
    return name if number == 0 or name in SHARED else f"{name}{number + 1}"


def own_genes(step: Step, number: int, genes: Genes) -> Genes:
    pool = RENDERERS[type(step)].gene_pool(step)
    return {gene.name: genes[gene_name(gene.name, number)] for gene in pool.genes}


def describe(plan: StepPlan, genes: Genes) -> str:
    notes = [
        RENDERERS[type(step)].describe(step, own_genes(step, number, genes)) for number, step in enumerate(plan.steps)
    ]
    return "; then ".join(notes)


def render(plan: StepPlan, genes: Genes, signatures: Sequence[Signature]) -> str:
    sizes = Sizes(plan.graph)
    pointers = {tensor.name: f"{tensor.name}.data" for tensor in plan.graph.tensors}
    pointers |= {buffer.name: buffer.name for buffer in plan.buffers}
    body = _memory(plan, sizes)
    for number, step in enumerate(plan.steps):
        body += RENDERERS[type(step)].render(step, own_genes(step, number, genes), sizes, pointers)
    body = _own_names(body, [tensor.name for tensor in plan.graph.tensors])
    head = CPP.signature_text(tuple(signatures)).removesuffix(";")
    about = f"// {plan.graph.task}: {describe(plan, genes)}.\n"
    narrow = {dtype for step in plan.steps if isinstance(step, RowProgram) for dtype in step.memory.values()}
    more = nests.PRELUDE if any(_generic(step) for step in plan.steps) else ""
    shared = prelude(body, int(genes["width"]), halves=bool(narrow), truths="bool" in narrow)
    return f"{about}{shared}{more}\n}}  // namespace\n\n{head} {{\n{body}}}\n"


def _generic(step: Step) -> bool:
    if isinstance(step, ContractionStep):
        return not contraction.covered(step)
    return isinstance(step, NestStep | RecurrentStep)


def _own_names(body: str, tensors: Sequence[str]) -> str:
    """Tensors under names that no variable of a step has: an argument may be called `c` or `rows`."""
    declared = r"(?:int64_t|int|auto|float|double|long long|V|I|Row)[&*]* (?:const )?"
    taken = [name for name in tensors if re.search(rf"{declared}{name}\b", body)]
    for name in taken:
        body = re.sub(rf"\b{name}\.(data|size)\b", rf"{name}_given.\1", body)
    return "".join(f"  const auto& {name}_given = {name};\n" for name in taken) + body


def _memory(plan: StepPlan, sizes: Sizes) -> str:
    """Static memory, in floats: two for the widest element."""
    uses = [touched(step) for step in plan.steps]
    shared = homes(uses, [buffer.name for buffer in plan.buffers])
    known = {buffer.name: buffer for buffer in plan.buffers}
    text = ""
    for home, names in residents(shared).items():
        counts = []
        for name in names:
            wide = "" if known[name].dtype == "float32" else "2 * "
            counts.append(f"{wide}static_cast<size_t>({sizes.expression(known[name].count)})")
        unique = list(dict.fromkeys(counts))
        count = unique[0] if len(unique) == 1 else f"std::max({{{', '.join(unique)}}})"
        text += (
            f"  static std::vector<float> memory_{home};\n"
            f"  if (memory_{home}.size() < {count} + 16) memory_{home}.resize({count} + 16);\n"
        )
        text += "".join(f"  {_aligned(known[name], home)};\n" for name in names)
    return text


def _aligned(buffer: Buffer, home: str) -> str:
    memory = f"aligned(memory_{home}.data())"
    if buffer.dtype == "float32":
        return f"float* const {buffer.name} = {memory}"
    kind = TYPES[buffer.dtype]
    return f"{kind}* const {buffer.name} = reinterpret_cast<{kind}*>({memory})"
