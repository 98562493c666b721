"""The proposer `templates`: a plan of steps, a pool of genes, and a candidate for each choice of genes."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from kernelwright.contracts import Candidate
from kernelwright.proposers.model import Operator, Proposal, Request
from kernelwright.proposers.templates.backends import Renderer, renderer_for
from kernelwright.proposers.templates.cut import make_plan
from kernelwright.proposers.templates.genes import GenePool, Genes
from kernelwright.proposers.templates.graph import CannotExpressError
from kernelwright.proposers.templates.patterns.generic_steps import generic_steps
from kernelwright.proposers.templates.plan import StepPlan, fused
from kernelwright.proposers.templates.safe_names import other_names, renamed_graph, renamed_signature
from kernelwright.proposers.templates.trace import read_graph
from kernelwright.tasks.model import Signature, Task

TRIES = 64  # draws in a row that give nothing new before the pool counts as used up


@dataclass(frozen=True)
class TemplateProposer:
    plan: StepPlan
    renderer: Renderer
    contract: str
    signatures: tuple[Signature, ...]
    pattern: str

    @property
    def name(self) -> str:
        return "templates"

    @cached_property
    def generic(self) -> tuple[str, ...]:
        return generic_steps(self.plan)

    def propose(self, request: Request) -> Sequence[Proposal]:
        """Fresh ones begin with the expert's choice and go on in order of promise; `seed` tells runs apart after it."""
        chance = random.Random(request.seed)
        pool = self.renderer.gene_pool(self.plan)
        parents = [dict(parent.proposal.genes) for parent in request.parents]
        inbred = request.operator in (Operator.mutate, Operator.crossover) and parents
        first = iter(()) if inbred or request.operator is Operator.sample else iter(pool.promising())
        shown = {one.proposal.candidate.id for one in (*request.parents, *request.inspirations)}
        made: dict[str, Proposal] = {}
        idle = 0
        while len(made) < request.count and idle < TRIES:
            genes = next(first, None)
            if genes is None:
                genes = self._drawn(pool, request.operator, parents, chance)
            proposal = self._proposal(genes, request)
            name = proposal.candidate.id
            new = name not in made and name not in shown and name not in request.known
            idle = 0 if new else idle + 1
            if new:
                made[name] = proposal
        return list(made.values())

    def _drawn(self, pool: GenePool, operator: Operator, parents: list[Genes], chance: random.Random) -> Genes:
        if operator in (Operator.fresh, Operator.sample) or not parents:
            return pool.drawn(chance)
        if operator == Operator.crossover and len(parents) > 1:
            return pool.crossed(parents, chance)
        return pool.mutated(chance.choice(parents), chance)

    def _proposal(self, genes: Genes, request: Request) -> Proposal:
        source = self.renderer.render(self.plan, genes, self.signatures)
        parents = () if request.operator in (Operator.fresh, Operator.sample) else request.parents
        return Proposal(
            Candidate(self.contract, source, f"templates {self.pattern}"),
            origin=f"templates {self.pattern}",
            genes=genes,
            note=self.renderer.describe(self.plan, genes),
            parents=tuple(parent.proposal.candidate.id for parent in parents),
            generic=self.generic,
        )


def make(task: Task, contract: str) -> TemplateProposer:
    """A proposer for the task; CannotExpressError, one line, where no template covers its reference."""
    from kernelwright.tasks.drawing import signature

    if len(task.dtypes) != 1:
        raise CannotExpressError(f"{task.name}: templates are written for one dtype, not {', '.join(task.dtypes)}")
    renderer = renderer_for(contract)
    signatures = tuple(signature(task, workload) for workload in task.public_workloads())
    others = other_names([argument.name for argument in signatures[0].arguments])
    graph = renamed_graph(read_graph(task), others)
    plan = fused(make_plan(graph, attention=renderer.ATTENTION, mixed=renderer.MIXED))
    signatures = tuple(renamed_signature(one, others) for one in signatures)
    return TemplateProposer(plan, renderer, contract, signatures, _pattern(plan))


def _pattern(plan: StepPlan) -> str:
    return "+".join(dict.fromkeys(step.pattern for step in plan.steps))
