"""Puts rendered kernels together: prelude, launches that share blocks where they can, and the plan around them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from textwrap import indent
from typing import Any

from kernelwright.contracts.cuda.source import Sources
from kernelwright.proposers.templates.cuda import nests, prelude, recurrent
from kernelwright.proposers.templates.cuda.contractions import attention as attention_kernel
from kernelwright.proposers.templates.cuda.contractions import contraction, nested
from kernelwright.proposers.templates.cuda.contractions.nested import NestedContraction
from kernelwright.proposers.templates.cuda.kernels import DYNAMIC, FIXED, Kernel, python_size, scheduled
from kernelwright.proposers.templates.cuda.products import dots, matmul, pairs
from kernelwright.proposers.templates.cuda.products.folding import (
    Changed,
    ColumnSum,
    FoldedProduct,
    PlannedStep,
    folded,
    reads_of,
)
from kernelwright.proposers.templates.cuda.rows import flat, rows, scatter
from kernelwright.proposers.templates.cuda.windows import convolution, pooling
from kernelwright.proposers.templates.cuda.windows.convolution import PooledConvolution
from kernelwright.proposers.templates.genes import Gene, GenePool, Genes
from kernelwright.proposers.templates.graph import Graph
from kernelwright.proposers.templates.patterns.attention import AttentionStep
from kernelwright.proposers.templates.patterns.contractions import ContractionStep, apart
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
from kernelwright.proposers.templates.plan import Step, StepPlan, homes, residents, with_last_steps
from kernelwright.proposers.templates.sizes import Sizes
from kernelwright.tasks.dtypes import ITEM_BYTES
from kernelwright.tasks.model import Signature

SHARE = Gene("share", (False, True), (True, False))  # kernels that do not need each other in one launch
OVERLAP = Gene("overlap", (False, True), (True, False))  # a launch begins before the one before it has ended
FOLD = Gene("fold", (False, True), (True, False))  # small products make operands themselves; sums become products
SIZES = Gene("sizes", (FIXED, DYNAMIC), (FIXED, DYNAMIC))  # definitions, or arguments of one build for many sizes
JOIN = Gene("join", (False, True), (True, False))  # two large products of one operand in one kernel
ATTENTION, MIXED = True, False
INDENT = "    "
MEMORY = re.compile(r"(\w+) = kw\.(?:scratch|workspace)\(")

AnyStep = PlannedStep | FoldedProduct | ColumnSum


@dataclass(frozen=True)
class CudaStepRenderer:
    """How one kind of step is written."""

    gene_pool: Callable[[Any], GenePool]
    describe: Callable[[Any, Genes], str]
    render: Callable[[Any, Genes, Sizes, Graph, int], list[Kernel]]


RENDERERS: dict[type, CudaStepRenderer] = {
    RowProgram: CudaStepRenderer(rows.gene_pool, rows.describe, rows.render),
    MatmulStep: CudaStepRenderer(matmul.gene_pool, matmul.describe, matmul.render),
    FoldedProduct: CudaStepRenderer(matmul.gene_pool, matmul.describe, matmul.render_folded),
    ColumnSum: CudaStepRenderer(matmul.gene_pool, matmul.describe, matmul.render_sum),
    ConvolutionStep: CudaStepRenderer(convolution.gene_pool, convolution.describe, convolution.render),
    PooledConvolution: CudaStepRenderer(convolution.gene_pool, convolution.describe, convolution.render),
    PoolStep: CudaStepRenderer(pooling.gene_pool, pooling.describe, pooling.render),
    PoolBackwardStep: CudaStepRenderer(pooling.gene_pool, pooling.describe, pooling.render),
    ScatterStep: CudaStepRenderer(scatter.gene_pool, scatter.describe, scatter.render),
    ContractionStep: CudaStepRenderer(contraction.gene_pool, contraction.describe, contraction.render),
    AttentionStep: CudaStepRenderer(attention_kernel.gene_pool, attention_kernel.describe, attention_kernel.render),
    NestedContraction: CudaStepRenderer(
        contraction.nested_genes, contraction.describe_nested, contraction.render_nested
    ),
    NestStep: CudaStepRenderer(nests.gene_pool, nests.describe, nests.render),
    RecurrentStep: CudaStepRenderer(recurrent.gene_pool, recurrent.describe, recurrent.render),
}
Contracting = ContractionStep | AttentionStep
DYNAMIC_STEPS = (RowProgram, MatmulStep)  # steps that can be written for sizes that are not known
_FLAT = CudaStepRenderer(flat.gene_pool, flat.describe, flat.render)


def renderer(step: AnyStep) -> CudaStepRenderer:
    return _FLAT if isinstance(step, RowProgram) and flat.covers(step) else RENDERERS[type(step)]


def steps_of(plan: StepPlan) -> list[PlannedStep]:
    """The plan's steps; a convolution that only a pooling reads becomes one with it."""
    steps: list[PlannedStep] = []
    given = [one for step in plan.steps for one in _covered(step)]
    for number, step in enumerate(given):
        before = steps[-1] if steps else None
        later = given[number + 1 :]
        if isinstance(step, PoolStep) and isinstance(before, ConvolutionStep) and _pooled(plan, before, step, later):
            steps[-1] = PooledConvolution(before, step)
        elif isinstance(step, NestStep) and isinstance(before, Contracting) and _nested(plan, before, step, later):
            steps[-1] = NestedContraction(before, step)
        elif isinstance(step, RowProgram) and isinstance(before, ContractionStep):
            joined = with_last_steps(before, step, list(plan.buffers), later, halves=True)
            steps[-1:] = [before, step] if joined is None else [joined]
        else:
            steps.append(step)
    return steps


def _nested(plan: StepPlan, before: ContractionStep | AttentionStep, nest: NestStep, later: Sequence[Step]) -> bool:
    own = any(buffer.name == before.output for buffer in plan.buffers)
    return own and nested.follows(nest, before) and not any(before.output in reads_of(step) for step in later)


def _covered(step: Step) -> Sequence[Step]:
    return apart(step) if isinstance(step, ContractionStep) and not contraction.covers(step) else (step,)


def _pooled(plan: StepPlan, before: ConvolutionStep, pool: PoolStep, later: Sequence[Step]) -> bool:
    plain = pool.window.padding == (0, 0) and pool.window.dilation == (1, 1)
    own = any(buffer.name == pool.input for buffer in plan.buffers) and not any(
        pool.input in reads_of(s) for s in later
    )
    stored = [store.tensor for store in before.epilogue.stores] if before.epilogue else [before.output]
    if convolution.is_large(before):
        return False
    return before.kind == "forward" and plain and own and stored == [pool.input] == [before.output]


def gene_pool(plan: StepPlan) -> GenePool:
    """The genes of all steps, numbered but for the first's, and those of the whole."""
    genes: list[Gene] = []
    for number, step in enumerate(steps_of(plan)):
        pool = renderer(step).gene_pool(step)
        kind = type(step).__name__
        genes += [Gene(_name(g.name, number), g.values, g.good, f"{kind} {g.name}") for g in pool.genes]
    sizes = (SIZES,) if all(_takes_any_size(step) for step in steps_of(plan)) else ()
    whole = (*((FOLD,) if _folded(plan) else ()), *((JOIN,) if _pairs(plan) else ()))
    return GenePool((*genes, *whole, SHARE, OVERLAP, *sizes))


def _takes_any_size(step: PlannedStep) -> bool:
    return isinstance(step, DYNAMIC_STEPS) and not (isinstance(step, RowProgram) and step.windows)


def _name(name: str, number: int) -> str:
    return name if number == 0 else f"{name}{number + 1}"


def _own(step: PlannedStep, number: int, genes: Genes) -> Genes:
    own = {gene.name: genes[_name(gene.name, number)] for gene in renderer(step).gene_pool(step).genes}
    return own | {"sizes": DYNAMIC} if genes.get("sizes") == DYNAMIC else own


def describe(plan: StepPlan, genes: Genes) -> str:
    steps = enumerate(steps_of(plan))
    text = "; then ".join(renderer(step).describe(step, _own(step, number, genes)) for number, step in steps)
    return f"{text}; sizes are arguments" if genes.get("sizes") == DYNAMIC else text


def render(plan: StepPlan, genes: Genes, signatures: Sequence[Signature]) -> str:
    """Where all products may be small, launches are other ones: small products share them with anything."""
    steps = dict(enumerate(steps_of(plan)))
    products = {number: step for number, step in steps.items() if isinstance(step, MatmulStep)}
    conditions = [matmul.is_small(step, _own(step, n, genes), Sizes(plan.graph)) for n, step in products.items()]
    if len(steps) > 1 and products and "False" not in conditions and genes.get("sizes") != DYNAMIC:
        small = genes | {_name("method", number): "dots" for number in products}
        changed = _folded(plan) if genes.get("fold") else {}
        conditions += [_short(step, Sizes(plan.graph)) for step in changed.values() if isinstance(step, ColumnSum)]
        one = _written(plan, {**steps, **changed}, small)
        always = set(conditions) == {"True"}
        written = one if always else _either(conditions, one, _written(plan, steps, genes))
    else:
        written = _written(plan, steps, genes)
    names = ", ".join(argument.name for argument in signatures[0].arguments)
    helpers = prelude.DYNAMIC_PLAN if genes.get("sizes") == DYNAMIC else prelude.PLAN
    programs = [step for step in steps.values() if isinstance(step, RowProgram)]
    halves = prelude.halves({dtype for program in programs for dtype in program.memory.values()})
    body = f"steps_, definitions_ = [], {{}}\n{written.plan}return kw.plan(*steps_, definitions=definitions_)\n"
    return Sources(
        f"// {plan.graph.task}: {describe(plan, genes)}.\n{prelude.KERNEL}\n"
        f"{_once((*halves, *written.needs))}{written.kernel}",
        f"{helpers}\n\n{_once(written.helpers)}def plan({names}):\n{indent(body, INDENT)}",
    ).joined()


@dataclass(frozen=True)
class _Written:
    needs: tuple[str, ...]
    helpers: tuple[str, ...]
    kernel: str
    plan: str


def _written(plan: StepPlan, steps: Mapping[int, AnyStep | None], genes: Genes) -> _Written:
    """All steps but those that nothing is left of; each has the genes of the plan's step of that number."""
    sizes = Sizes(plan.graph)
    kernels: list[Kernel] = []
    planned = steps_of(plan)
    joined = pairs.pairs(steps, plan.buffers) if genes.get("join") else {}
    joined = {number: pair for number, pair in joined.items() if pairs.applies(_own(planned[number], number, genes))}
    for (number, step), own in zip(steps.items(), planned, strict=True):
        chosen = _own(own, number, genes)
        if number in joined:
            kernels += pairs.render(joined[number], chosen, sizes, plan.graph, number, len(planned) + number)
        elif step is not None and number - 1 not in joined:
            kernels += renderer(step).render(step, chosen, sizes, plan.graph, number)
    kernels = _memory_once(kernels)
    shared = _homes(plan, kernels, dynamic=genes.get("sizes") == DYNAMIC)
    launches = scheduled(kernels, share=bool(genes["share"]), homes=shared)
    kernel = "\n".join(one.function() for one in kernels)
    text = _scratch(plan, shared, sizes)
    for number, launch in enumerate(launches):
        after = launches[number + 1] if number + 1 < len(launches) else None
        before = launches[number - 1] if number and genes["overlap"] else None
        kernel += "\n" + launch.text(waits=before is not None, lets=bool(genes["overlap"]) and after is not None)
        text += launch.plan(before)
    needs = tuple(text for one in kernels for text in one.needs)
    helpers = tuple(text for one in kernels for text in one.helpers)
    return _Written(needs, helpers, kernel, text)


def _homes(plan: StepPlan, kernels: Sequence[Kernel], *, dynamic: bool) -> dict[str, str]:
    """Buffers that lie in the same memory; with sizes that are not known each has its own."""
    uses = [kernel.reads | kernel.writes for kernel in kernels]
    used = [buffer.name for buffer in plan.buffers if any(buffer.name in names for names in uses)]
    return {name: name for name in used} if dynamic else homes(uses, used)


def _scratch(plan: StepPlan, shared: Mapping[str, str], sizes: Sizes) -> str:
    known = {buffer.name: buffer for buffer in plan.buffers}
    text = ""
    for home, names in residents(shared).items():
        needs = [f"{ITEM_BYTES[known[n].dtype]} * ({python_size(known[n].count, sizes)})" for n in names]
        needs = list(dict.fromkeys(needs))
        size = needs[0] if len(needs) == 1 else f"max({', '.join(needs)})"
        text += f'{home} = kw.scratch("{home}", {size})\n'
        text += "".join(f"{name} = {home}\n" for name in names if name != home)
    return text


def _memory_once(kernels: Sequence[Kernel]) -> list[Kernel]:
    """Memory that two kernels of a step know is made by the first."""
    seen: set[str] = set()
    made = []
    for kernel in kernels:
        lines = []
        for line in kernel.setup.splitlines():
            found = MEMORY.match(line)
            if found is None or found[1] not in seen:
                lines.append(line)
            if found is not None:
                seen.add(found[1])
        made.append(replace(kernel, setup="\n".join(lines)))
    return made


def _folded(plan: StepPlan) -> dict[int, Changed]:
    steps = steps_of(plan)
    return folded(steps, plan.buffers) if any(isinstance(step, MatmulStep) for step in steps) else {}


def _pairs(plan: StepPlan) -> bool:
    return bool(pairs.pairs(dict(enumerate(steps_of(plan))), plan.buffers))


def _short(step: ColumnSum, sizes: Sizes) -> str:
    return f"{python_size(step.product.k, sizes)} <= {dots.DEEPEST_STRIP}"


def _either(conditions: Sequence[str], one: _Written, other: _Written) -> _Written:
    """The first if all conditions hold, which are Python."""
    return _Written(
        (*one.needs, *other.needs),
        (*one.helpers, *other.helpers),
        f"#if SMALL\n{one.kernel}#else\n{other.kernel}#endif\n",
        f"small_ = {' and '.join(f'({condition})' for condition in dict.fromkeys(conditions))}\n"
        'definitions_["SMALL"] = int(small_)\n'
        f"if small_:\n{indent(one.plan, INDENT)}else:\n{indent(other.plan, INDENT)}",
    )


def _once(texts: Iterable[str]) -> str:
    """What several kernels need, each text once."""
    return "".join(f"{text}\n\n" for text in dict.fromkeys(texts))
