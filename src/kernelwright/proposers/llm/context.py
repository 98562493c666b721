"""From a request of the search to what a model is asked: which stage, which kernels, which hint."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field

from kernelwright.proposers.llm.prompts import is_cut, sampled_hint
from kernelwright.proposers.llm.shown import shown_kernel
from kernelwright.proposers.llm.view import Mode, PromptStage, PromptView, ShownDevice, ShownKernel, ShownTask
from kernelwright.proposers.model import Operator, Parent, Request

EXAMPLES = 5
EDITED = 0.4  # of the requests to vary one parent
HINTED = 0.75
LONG = 5000  # characters of a source


@dataclass(frozen=True)
class PromptContext:
    """What stays the same in all prompts of a run. `bounds` are a CPU's; those of a GPU come with every verdict."""

    contract: str
    task: ShownTask
    device: ShownDevice
    bounds: Mapping[str, float] = field(default_factory=dict)

    def shown(self, parent: Parent) -> ShownKernel:
        return shown_kernel(parent, self.task, self.device, self.bounds)

    def view(self, request: Request) -> PromptView:
        """The same request always gives the same view."""
        chance = random.Random(request.seed)
        stage = stage_of(request)
        parents = tuple(self.shown(parent) for parent in request.parents)
        examples = tuple(self.shown(one) for one in request.inspirations)
        mode = repair_mode(parents[0]) if stage is PromptStage.repair else _mode(request.operator, parents, chance)
        hinted = chance.random() < HINTED
        hint = sampled_hint(self.contract, _limit(parents), chance.getrandbits(32)) if hinted else None
        return PromptView(
            stage=stage,
            contract=self.contract,
            task=self.task,
            device=self.device,
            mode=mode,
            subject=parents[0] if stage is PromptStage.repair else None,
            parents=parents,
            examples=_without(examples, parents)[-EXAMPLES:],
            lessons=request.lessons,
            hint=hint if stage is not PromptStage.repair else None,
            variety=request.seed,
        )

    def about(self, stage: PromptStage, subject: ShownKernel) -> PromptView:
        """For a model that diagnoses or verifies one kernel."""
        return PromptView(stage=stage, contract=self.contract, task=self.task, device=self.device, subject=subject)


def stage_of(request: Request) -> PromptStage:
    """Before anything is right the reference is translated; after that kernels evolve."""
    if request.operator is Operator.repair:
        return PromptStage.repair
    return PromptStage.evolve if request.parents or request.inspirations else PromptStage.translate


def repair_mode(subject: ShownKernel) -> Mode:
    """A long source is repaired by edits: writing it out again takes minutes, and makes new mistakes."""
    return Mode.edit if len(subject.source) > LONG and _is_seen(subject) else Mode.rewrite


def edited_parent(request: Request) -> str | None:
    """What changes in an answer apply to: the one parent that was shown, and nothing else."""
    one = len(request.parents) == 1
    return request.parents[0].proposal.candidate.source if one else None


def _is_seen(kernel: ShownKernel) -> bool:
    """Whether a prompt shows all of it: a model cannot edit what it is not shown."""
    return not is_cut(kernel.source)


def _mode(operator: Operator, parents: tuple[ShownKernel, ...], chance: random.Random) -> Mode:
    if operator is Operator.crossover:
        return Mode.crossover
    edited = chance.random() < EDITED  # drawn in any case: the hint does not depend on the operator
    return Mode.edit if operator is Operator.mutate and edited and all(map(_is_seen, parents)) else Mode.rewrite


def _limit(parents: tuple[ShownKernel, ...]) -> str:
    """What holds the first parent back on the workload where it gains least."""
    if not parents or not parents[0].timings:
        return ""
    return min(parents[0].timings, key=lambda timing: timing.speedup).limit


def _without(examples: tuple[ShownKernel, ...], parents: tuple[ShownKernel, ...]) -> tuple[ShownKernel, ...]:
    shown = {parent.source for parent in parents}
    return tuple(example for example in examples if example.source not in shown)
