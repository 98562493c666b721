"""Answers before they become proposals: read, checked by a compiler, and sent back with its errors for repair."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from kernelwright.judge.wording import first_error
from kernelwright.llm.model import CallFailed, FailureKind, ModelCall, ModelReply
from kernelwright.proposers.llm.answers import as_candidate, read_answer, text_of
from kernelwright.proposers.llm.checks import Check, CheckFault, first_fault
from kernelwright.proposers.llm.context import PromptContext, edited_parent, repair_mode
from kernelwright.proposers.llm.prompts import page, render
from kernelwright.proposers.llm.shown import cut
from kernelwright.proposers.llm.verifiers import Models, derived_seed
from kernelwright.proposers.llm.view import PromptStage, PromptView, ShownKernel
from kernelwright.proposers.model import MEMBER, USD, Proposal, Refusal, Request

BUILDERS = 2


@dataclass(frozen=True)
class Draft:
    """A source that a model wrote, with what it cost so far. A fault is what a real check found."""

    proposal: Proposal
    member: str
    usd: float
    fault: CheckFault | None = None

    def refuse(self, request: Request, why: str) -> None:
        request.refuse(self.proposal.candidate.name, why, self.member, self.usd)


def read_draft(view: PromptView, reply: ModelReply | CallFailed, request: Request, contract: str) -> Draft | None:
    """The source in an answer, or None where it was refused, with the reason in the request."""
    if isinstance(reply, CallFailed):
        called = reply.called
        if reply.kind is not FailureKind.over_budget or (called and called.attempts):  # money was out after a retry
            request.refuse("", str(reply), called.member if called else "", called.price if called else 0.0)
        return None
    member, usd = reply.called.member, reply.called.price
    text = text_of(reply.text)
    try:
        answer = read_answer(text, contract, edited_parent(request))
    except Refusal as error:
        request.refuse("", f"{member}: {error}", member, usd)
        return None
    mode = f" {view.mode}" if view.stage is PromptStage.evolve else ""
    proposal = Proposal(
        as_candidate(answer, contract, f"{view.stage} {request.number} {member}"),
        f"llm {view.stage}{mode}",
        {MEMBER: member, USD: usd},
        answer.note,
        tuple(parent.proposal.candidate.id for parent in request.parents),
        page(render(view)),
        text,
    )
    return Draft(proposal, member, usd)


@dataclass(frozen=True)
class Repairer:
    models: Models
    context: PromptContext
    checks: tuple[Check, ...]
    contract: str

    def sound(self, drafts: list[Draft], request: Request, rounds: int) -> list[Draft]:
        """Those that build. One that does not goes back to a model with the compiler's errors, `rounds` times."""
        found: list[Draft] = []
        left = _new(drafts, found, request)
        while left:
            checked = self._checked(left)
            found += [draft for draft in checked if draft.fault is None]
            broken = [draft for draft in checked if draft.fault is not None]
            if not rounds:
                for draft in broken:
                    draft.refuse(request, _described(draft))
                break
            left = _new(self._repaired(broken, request, rounds), found, request) if broken else []
            rounds -= 1
        return found

    def _checked(self, drafts: list[Draft]) -> list[Draft]:
        if not self.checks:
            return drafts
        with ThreadPoolExecutor(BUILDERS, thread_name_prefix="checks") as pool:
            faults = pool.map(lambda draft: first_fault(draft.proposal.candidate, self.checks), drafts)
            return [replace(draft, fault=fault) for draft, fault in zip(drafts, faults, strict=True)]

    def _repaired(self, broken: list[Draft], request: Request, rounds: int) -> list[Draft]:
        views = []
        for index, draft in enumerate(broken):
            subject = _faulty(draft)
            seed = derived_seed(request.seed, f"mend {rounds} {index}")
            more = {"variety": seed, "lessons": request.lessons, "mode": repair_mode(subject)}
            views.append(self.context.about(PromptStage.repair, subject).model_copy(update=more))
        replies = self.models.ask_all(
            [ModelCall(PromptStage.repair.value, render(view), view.variety) for view in views]
        )
        again = (
            self._again(draft, view, reply, request) for draft, view, reply in zip(broken, views, replies, strict=True)
        )
        return [draft for draft in again if draft is not None]

    def _again(self, draft: Draft, view: PromptView, reply: ModelReply | CallFailed, request: Request) -> Draft | None:
        """Changes in the answer apply to the source that did not build. Its first author keeps the credit."""
        candidate = draft.proposal.candidate
        paid = replace(draft, usd=draft.usd + (reply.called.price if reply.called else 0.0))
        if isinstance(reply, CallFailed):
            paid.refuse(request, f"{_described(draft)}, and {reply}")
            return None
        text = text_of(reply.text)
        try:
            answer = read_answer(text, self.contract, candidate.source)
        except Refusal as error:
            paid.refuse(request, f"{reply.called.member}: {error}")
            return None
        proposal = replace(
            draft.proposal,
            candidate=as_candidate(answer, self.contract, candidate.name),
            genes={**draft.proposal.genes, USD: paid.usd},
            prompt=page(render(view)),
            answer=text,
        )
        return replace(paid, proposal=proposal, fault=None)


def _new(drafts: list[Draft], found: list[Draft], request: Request) -> list[Draft]:
    """Without those that the run, or this generation, has already."""
    seen = {draft.proposal.candidate.id for draft in found}
    kept = []
    for draft in drafts:
        name = draft.proposal.candidate.id
        if name in seen or name in request.known:
            draft.refuse(request, "was proposed before")
            continue
        seen.add(name)
        kept.append(draft)
    return kept


def _faulty(draft: Draft) -> ShownKernel:
    assert draft.fault is not None
    return ShownKernel(
        name=draft.proposal.candidate.name,
        source=draft.proposal.candidate.source,
        note=draft.proposal.note,
        outcome="rejected",
        fault=draft.fault.sentence,
        evidence=cut(draft.fault.lines),
    )


def _described(draft: Draft) -> str:
    assert draft.fault is not None
    detail = f": {first_error(draft.fault.lines)}" if draft.fault.lines else ""
    return f"{draft.fault.sentence}{detail}"
