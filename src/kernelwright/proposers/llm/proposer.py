"""The proposer `llm`: a generation of answers, checked for real, mended where the compiler says how, and ranked.

More is asked for than is measured. What cannot be parsed, is known already or does not build costs no evaluation; of
the rest verifiers choose. Nothing of an answer runs in here: compilers and plans run in the judge's sandboxes.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from kernelwright.contracts import Candidate
from kernelwright.errors import KernelwrightError
from kernelwright.llm.model import Ask, CallFailed, Estimate, FailureKind, Reply
from kernelwright.proposers.llm.answers import as_candidate, read_answer
from kernelwright.proposers.llm.asking import Ground, edited_parent, stage_of
from kernelwright.proposers.llm.checks import Check, Fault, first_fault
from kernelwright.proposers.llm.opinions import BottleneckDiagnosis, ErrorDiagnosis, Members, Models
from kernelwright.proposers.llm.prompts import page, render
from kernelwright.proposers.llm.verifying import Opinion, Panel, derived, ranked
from kernelwright.proposers.llm.view import PromptView, ShownKernel, Stage
from kernelwright.proposers.model import MEMBER, USD, Honesty, Operator, Proposal, Refusal, Request
from kernelwright.proposers.once import Once

GENERATION, MEASURED = 8, 4
REPAIRERS = 2  # answers that are asked for to repair one candidate
MENDS = {Stage.translate: 2, Stage.repair: 1, Stage.evolve: 1}  # rounds with the compiler before a judge is asked
BUILDERS = 2


@dataclass(frozen=True)
class Means:
    """What a proposer needs beside the models: the ground of its prompts, and real checks."""

    ground: Ground
    checks: tuple[Check, ...] = ()


@dataclass(frozen=True)
class Draft:
    """An answer on its way to becoming a proposal."""

    proposal: Proposal
    view: PromptView
    member: str
    usd: float
    fault: Fault | None = None


@dataclass(frozen=True)
class LlmProposer:
    """`verifiers` are those that pay for themselves, by their calibration. Cheating is looked for in finals always."""

    models: Models
    members: Members
    means: Once[Means]  # made when it is first needed: by then the device's peaks have been measured
    contract: str
    generation: int = GENERATION
    verifiers: tuple[Stage, ...] = ()
    diagnose: bool = True
    name: str = "llm"

    @property
    def panel(self) -> Panel:
        return Panel(self.models, self.members, self.means().ground)

    def propose(self, request: Request) -> Sequence[Proposal]:
        views = self._views(request)
        asks = [Ask(view.stage.value, render(view), view.variety) for view in views]
        replies = self.models.ask_all(asks)
        failures = [reply for reply in replies if isinstance(reply, CallFailed)]
        if len(failures) == len(replies):
            raise _nothing(failures)
        drafts = []
        for view, reply in zip(views, replies, strict=True):
            draft = self._read(view, reply, request)
            if draft is not None:
                drafts.append(draft)
        sound = self._mended(drafts, request, MENDS[stage_of(request)])
        return [draft.proposal for draft in self._chosen(sound, request)]

    def review(self, candidate: Candidate, seed: int) -> Honesty:
        """Whether a finalist cheats, by a majority. The judge's verdict does not depend on it."""
        ((opinion,),) = self.panel.opinions([candidate], [Stage.verify_cheating], seed)
        return Honesty(opinion.votes, opinion.against, opinion.reason)

    def estimate(self, request: Request) -> Estimate:
        """What a generation costs at most: proposals, one round of mending, opinions."""
        views = self._views(replace(request, parents=()), ask=False)
        asks = [Ask(view.stage.value, render(view), view.variety) for view in views]
        skeleton = Candidate(self.contract, self.means().ground.task.brief.skeleton, "skeleton")
        opinions = [
            ask for _ in views for ask in self.panel.asks(skeleton, self.verifiers, request.seed) if self.verifiers
        ]
        return self.models.estimate([*asks, *asks, *opinions])

    # --- asking -------------------------------------------------------------------------------------------------------

    def _views(self, request: Request, *, ask: bool = True) -> list[PromptView]:
        """Different ones for each answer that is wanted: another hint, another form, a diagnosis or none."""
        count = min(REPAIRERS, self.generation) if request.operator is Operator.repair else self.generation
        ground = self.means().ground
        views = []
        for index in range(count):
            views.append(ground.view(replace(request, seed=derived(request.seed, f"answer {index}"))))
        if not (ask and self.diagnose and request.parents):
            return views
        told = self._diagnosis(ground.shown(request.parents[0]), request)
        every = 1 if request.operator is Operator.repair else 2  # half of a generation sees the parent unprejudiced
        return [
            view.model_copy(update={"diagnosis": told}) if index % every == 0 else view
            for index, view in enumerate(views)
        ]

    def _diagnosis(self, subject: ShownKernel, request: Request) -> str:
        """One issue or one bottleneck, in words; empty where nobody answered."""
        broken = request.operator is Operator.repair
        stage = Stage.diagnose_error if broken else Stage.diagnose_bottleneck
        wanted = ErrorDiagnosis if broken else BottleneckDiagnosis
        view = self.means().ground.about(stage, subject)
        ask = Ask(stage.value, render(view), derived(request.seed, stage.value), answer=wanted)
        (reply,) = self.models.ask_all([ask])
        value = None if isinstance(reply, CallFailed) else reply.value
        return value.text if isinstance(value, ErrorDiagnosis | BottleneckDiagnosis) else ""

    def _read(self, view: PromptView, reply: Reply | CallFailed, request: Request) -> Draft | None:
        if isinstance(reply, CallFailed):
            if reply.kind is not FailureKind.over_budget:
                called = reply.called
                request.refuse("", str(reply), called.member if called else "", (called.usd or 0.0) if called else 0.0)
            return None
        member, usd = reply.called.member, reply.called.usd or 0.0
        try:
            answer = read_answer(reply.text, self.contract, edited_parent(request))
        except Refusal as error:
            request.refuse("", f"{member}: {error}", member, usd)
            return None
        candidate = as_candidate(answer, self.contract, f"{view.stage} {request.number} {member}")
        mode = f" {view.mode}" if view.stage is Stage.evolve else ""
        proposal = Proposal(
            candidate,
            f"llm {view.stage}{mode}",
            {MEMBER: member, USD: usd},
            answer.note,
            tuple(parent.proposal.candidate.id for parent in request.parents),
            page(render(view)),
            reply.text,
        )
        return Draft(proposal, view, member, usd)

    # --- real checks --------------------------------------------------------------------------------------------------

    def _mended(self, drafts: list[Draft], request: Request, rounds: int) -> list[Draft]:
        """Those that build. One that does not goes back to a model with what the compiler said, `rounds` times."""
        sound: list[Draft] = []
        left = self._new(drafts, sound, request)
        for remaining in range(rounds, -1, -1):
            checked = self._checked(left)
            sound += [draft for draft in checked if draft.fault is None]
            broken = [draft for draft in checked if draft.fault is not None]
            if not broken or not remaining:
                break
            left = self._new(self._mend(broken, request, remaining), sound, request)
        else:
            broken = []
        for draft in broken:
            assert draft.fault is not None
            first = f": {draft.fault.lines[0]}" if draft.fault.lines else ""
            request.refuse(draft.proposal.candidate.name, f"{draft.fault.sentence}{first}", draft.member, draft.usd)
        return sound

    def _mend(self, broken: list[Draft], request: Request, remaining: int) -> list[Draft]:
        views = []
        for index, draft in enumerate(broken):
            assert draft.fault is not None
            subject = ShownKernel(
                name=draft.proposal.candidate.name,
                source=draft.proposal.candidate.source,
                note=draft.proposal.note,
                outcome="rejected",
                fault=draft.fault.sentence,
                evidence=draft.fault.lines,
            )
            view = self.means().ground.about(Stage.repair, subject)
            seed = derived(request.seed, f"mend {remaining} {index}")
            views.append(view.model_copy(update={"variety": seed, "lessons": request.lessons}))
        replies = self.models.ask_all([Ask(Stage.repair.value, render(view), view.variety) for view in views])
        found = []
        for draft, view, reply in zip(broken, views, replies, strict=True):
            again = self._read_mended(draft, view, reply, request)
            if again is not None:
                found.append(again)
        return found

    def _read_mended(self, draft: Draft, view: PromptView, reply: Reply | CallFailed, request: Request) -> Draft | None:
        candidate = draft.proposal.candidate
        if isinstance(reply, CallFailed):
            assert draft.fault is not None
            request.refuse(candidate.name, f"{draft.fault.sentence}, and {reply}", draft.member, draft.usd)
            return None
        usd = draft.usd + (reply.called.usd or 0.0)
        try:
            answer = read_answer(reply.text, self.contract, candidate.source)
        except Refusal as error:
            request.refuse(candidate.name, f"{reply.called.member}: {error}", draft.member, usd)
            return None
        proposal = replace(
            draft.proposal,
            candidate=as_candidate(answer, self.contract, candidate.name),
            genes={**draft.proposal.genes, USD: usd},
            prompt=page(render(view)),
            answer=reply.text,
        )
        return Draft(proposal, draft.view, draft.member, usd)

    def _new(self, drafts: list[Draft], sound: list[Draft], request: Request) -> list[Draft]:
        """Without those that the run, or this generation, has already."""
        seen = {draft.proposal.candidate.id for draft in sound}
        found = []
        for draft in drafts:
            name = draft.proposal.candidate.id
            if name in seen or name in request.known:
                request.refuse(draft.proposal.candidate.name, "was proposed before", draft.member, draft.usd)
                continue
            seen.add(name)
            found.append(draft)
        return found

    def _checked(self, drafts: list[Draft]) -> list[Draft]:
        checks = self.means().checks
        if not checks or not drafts:
            return drafts
        with ThreadPoolExecutor(BUILDERS, thread_name_prefix="checks") as pool:
            faults = pool.map(lambda draft: first_fault(draft.proposal.candidate, checks), drafts)
            return [replace(draft, fault=fault) for draft, fault in zip(drafts, faults, strict=True)]

    # --- opinions -----------------------------------------------------------------------------------------------------

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
            draft = drafts[index]
            request.refuse(draft.proposal.candidate.name, f"not measured: {why}", draft.member, draft.usd)
        return [drafts[index] for index in order]


def _nothing(failures: list[CallFailed]) -> KernelwrightError:
    """No model answered at all. Without a key there is nothing to wait for; without money the run is at its end."""
    first = failures[0]
    if all(failure.kind is FailureKind.unauthorised for failure in failures):
        return KernelwrightError(str(first))
    out_of_money = all(failure.kind is FailureKind.over_budget for failure in failures)
    return Refusal(str(first), final=out_of_money)
