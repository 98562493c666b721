"""The proposer `llm`: a generation of answers, checked by a compiler, repaired where it says how, and ranked.

More is asked for than is measured. What cannot be parsed, is known already or does not build costs no evaluation; of
the rest verifiers choose. Nothing of an answer runs in here: compilers and plans run in the judge's sandboxes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from kernelwright.contracts import Candidate
from kernelwright.errors import KernelwrightError
from kernelwright.llm.model import CallFailed, Estimate, FailureKind, ModelCall, ModelReply
from kernelwright.proposers.llm import upper_bounds
from kernelwright.proposers.llm.checks import Check
from kernelwright.proposers.llm.context import PromptContext, stage_of
from kernelwright.proposers.llm.prompts import render
from kernelwright.proposers.llm.repair import Draft, Repairer, read_draft
from kernelwright.proposers.llm.verifiers import (
    BottleneckDiagnosis,
    ErrorDiagnosis,
    Members,
    Models,
    Opinion,
    Panel,
    derived_seed,
    ranked,
)
from kernelwright.proposers.llm.view import PromptStage, PromptView, ShownKernel
from kernelwright.proposers.model import Honesty, Once, Operator, Proposal, Refusal, Request

GENERATION, MEASURED = 8, 4
REPAIR_ANSWERS = 2  # answers that are asked for to repair one candidate
REPAIR_ROUNDS = {
    PromptStage.translate: 2,
    PromptStage.repair: 1,
    PromptStage.evolve: 1,
}  # rounds with the compiler before a judge is asked


@dataclass(frozen=True)
class ProposerTools:
    """What a proposer needs beside the models: the context of its prompts, and real checks."""

    context: PromptContext
    checks: tuple[Check, ...] = ()


@dataclass(frozen=True)
class LlmProposer:
    """`verifiers` are those that pay for themselves, by their calibration. Cheating is looked for in finals always."""

    models: Models
    members: Members
    tools: Once[ProposerTools]  # made when it is first needed: by then the device's peaks have been measured
    contract: str
    generation: int = GENERATION
    verifiers: tuple[PromptStage, ...] = ()
    diagnose: bool = True
    name: str = "llm"

    @property
    def panel(self) -> Panel:
        return Panel(self.models, self.members, self.tools().context)

    def propose(self, request: Request) -> Sequence[Proposal]:
        views = self._views(request)
        asks = [ModelCall(view.stage.value, render(view), view.variety) for view in views]
        replies = self.models.ask_all(asks)
        answers = [read_draft(view, reply, request, self.contract) for view, reply in zip(views, replies, strict=True)]
        _answerable(replies)
        repairer = Repairer(self.models, self.tools().context, self.tools().checks, self.contract)
        drafts = [draft for draft in answers if draft is not None]
        sound = repairer.sound(drafts, request, REPAIR_ROUNDS[stage_of(request)])
        return [draft.proposal for draft in self._chosen(sound, request)]

    def review(self, candidate: Candidate, seed: int) -> Honesty:
        """Whether a finalist cheats, by a majority. The judge's verdict does not depend on it."""
        ((opinion,),) = self.panel.opinions([candidate], [PromptStage.verify_cheating], seed)
        return Honesty(opinion.votes, opinion.against, opinion.reason)

    def estimate(self, request: Request) -> Estimate:
        """What any generation costs at most: a diagnosis, proposals, all rounds of repair, opinions.

        It may be a late one, whose prompts show kernels as long as they can be shown; of the request only the lessons
        count.
        """
        context, seed = self.tools().context, request.seed
        diagnosis, evolve, repair = (
            PromptStage.diagnose_bottleneck.value,
            PromptStage.evolve.value,
            PromptStage.repair.value,
        )
        diagnoses = [ModelCall(diagnosis, upper_bounds.diagnosing(context), seed, answer=BottleneckDiagnosis)]
        written = [ModelCall(evolve, upper_bounds.evolving(context, request.lessons), seed)]
        repaired = [ModelCall(repair, upper_bounds.repairing(context, request.lessons), seed)] * max(
            REPAIR_ROUNDS.values()
        )
        opinions = self.panel.asks(Candidate(self.contract, upper_bounds.SOURCE), self.verifiers, seed)
        return self.models.estimate([*diagnoses * self.diagnose, *[*written, *repaired, *opinions] * self.generation])

    def _views(self, request: Request) -> list[PromptView]:
        """Different ones for each answer that is wanted: another hint, another form, a diagnosis or none."""
        count = min(REPAIR_ANSWERS, self.generation) if request.operator is Operator.repair else self.generation
        context = self.tools().context
        views = []
        for index in range(count):
            views.append(context.view(replace(request, seed=derived_seed(request.seed, f"answer {index}"))))
        if not (self.diagnose and request.parents):
            return views
        diagnosis = self._diagnosis(context.shown(request.parents[0]), request)
        every = 1 if request.operator is Operator.repair else 2  # half of a generation sees the parent unprejudiced
        return [
            view.model_copy(update={"diagnosis": diagnosis}) if index % every == 0 else view
            for index, view in enumerate(views)
        ]

    def _diagnosis(self, subject: ShownKernel, request: Request) -> str:
        """One issue or one bottleneck, in words; empty where no model answered."""
        broken = request.operator is Operator.repair
        stage = PromptStage.diagnose_error if broken else PromptStage.diagnose_bottleneck
        wanted = ErrorDiagnosis if broken else BottleneckDiagnosis
        view = self.tools().context.about(stage, subject)
        ask = ModelCall(stage.value, render(view), derived_seed(request.seed, stage.value), answer=wanted)
        (reply,) = self.models.ask_all([ask])
        value = None if isinstance(reply, CallFailed) else reply.value
        return value.text if isinstance(value, ErrorDiagnosis | BottleneckDiagnosis) else ""

    def _chosen(self, drafts: list[Draft], request: Request) -> list[Draft]:
        """As many as are to be measured. Verifiers are asked only where there is a choice."""
        if len(drafts) <= request.count:
            return drafts
        candidates = [draft.proposal.candidate for draft in drafts]
        opinions: list[list[Opinion]] = [[] for _ in drafts]
        if self.verifiers:
            opinions = self.panel.opinions(candidates, self.verifiers, request.seed)
        order, left = ranked(opinions, request.count)
        for index, why in left.items():
            drafts[index].refuse(request, f"not measured: {why}")
        return [drafts[index] for index in order]


def _answerable(replies: Sequence[ModelReply | CallFailed]) -> None:
    """Raises where no model will answer: without a key there is nothing to wait for, without a budget the run ends.

    Other failures are refused one by one, since each has its member and its price.
    """
    failures = [reply for reply in replies if isinstance(reply, CallFailed)]
    kinds = {failure.kind for failure in failures}
    if len(failures) < len(replies) or len(kinds) != 1:
        return
    if kinds == {FailureKind.unauthorised}:
        raise KernelwrightError(str(failures[0]))
    if kinds == {FailureKind.over_budget}:
        raise Refusal(str(failures[0]), final=True)
