"""Puts rendered kernels together: prelude, launches that share blocks where they can, and the plan around them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from kernelwright.contracts.cuda.source import Sources
from kernelwright.proposers.templates.cuda import flat, prelude, rows
from kernelwright.proposers.templates.cuda.kernels import Kernel, scheduled
from kernelwright.proposers.templates.genes import Gene, GenePool, Genes
from kernelwright.proposers.templates.graph import CannotExpressError, Graph
from kernelwright.proposers.templates.patterns.rows import RowProgram
from kernelwright.proposers.templates.plan import Plan, Step
from kernelwright.proposers.templates.sizes import Sizes
from kernelwright.tasks.model import Signature

SHARE = Gene("share", (False, True), (True, False))  # kernels that do not need each other in one launch
OVERLAP = Gene("overlap", (False, True), (True, False))  # a launch begins before the one before it has ended


@dataclass(frozen=True)
class StepRenderer:
    """How one kind of step is written."""

    gene_pool: Callable[[Any], GenePool]
    describe: Callable[[Any, Genes], str]
    render: Callable[[Any, Genes, Sizes, Graph, int], list[Kernel]]


_ROWS = StepRenderer(rows.gene_pool, rows.describe, rows.render)
_FLAT = StepRenderer(flat.gene_pool, flat.describe, flat.render)


def renderer(step: Step, graph: Graph) -> StepRenderer:
    if isinstance(step, RowProgram):
        return _FLAT if flat.covers(step) else _ROWS
    raise CannotExpressError(f"{graph.task}: no CUDA template covers {step.pattern}")


def gene_pool(plan: Plan) -> GenePool:
    """The genes of all steps, numbered but for the first's, and those of the whole."""
    genes: list[Gene] = []
    for number, step in enumerate(plan.steps):
        pool = renderer(step, plan.graph).gene_pool(step)
        genes += [Gene(_name(gene.name, number), gene.values, gene.good) for gene in pool.genes]
    return GenePool((*genes, SHARE, OVERLAP))


def _name(name: str, number: int) -> str:
    return name if number == 0 else f"{name}{number + 1}"


def _own(plan: Plan, number: int, genes: Genes) -> Genes:
    step = plan.steps[number]
    pool = renderer(step, plan.graph).gene_pool(step)
    return {gene.name: genes[_name(gene.name, number)] for gene in pool.genes}


def describe(plan: Plan, genes: Genes) -> str:
    notes = [
        renderer(step, plan.graph).describe(step, _own(plan, number, genes)) for number, step in enumerate(plan.steps)
    ]
    return "; then ".join(notes)


def render(plan: Plan, genes: Genes, signatures: Sequence[Signature]) -> str:
    sizes = Sizes(plan.graph)
    kernels: list[Kernel] = []
    for number, step in enumerate(plan.steps):
        kernels += renderer(step, plan.graph).render(step, _own(plan, number, genes), sizes, plan.graph, number)
    launches = scheduled(kernels, share=bool(genes["share"]))
    kernel = f"// {plan.graph.task}: {describe(plan, genes)}.\n{prelude.KERNEL}\n"
    kernel += "\n".join(one.function() for one in kernels)
    names = ", ".join(argument.name for argument in signatures[0].arguments)
    text = f"{prelude.PLAN}\n\ndef plan({names}):\n    steps_, definitions_ = [], {{}}\n"
    for buffer in plan.buffers:
        text += f'    {buffer.name} = kw.scratch("{buffer.name}", 4 * ({sizes.expression(buffer.count)}))\n'
    for number, launch in enumerate(launches):
        after = launches[number + 1] if number + 1 < len(launches) else None
        waits = bool(genes["overlap"]) and number > 0 and not launch.alone and not launches[number - 1].alone
        lets = bool(genes["overlap"]) and after is not None and not launch.alone and not after.alone
        kernel += "\n" + launch.text(waits=waits, lets=lets)
        text += launch.plan(waits=waits)
    text += "    return kw.plan(*steps_, definitions=definitions_)\n"
    return Sources(kernel, text).joined()
