"""One request to the proposer `llm`: what is asked, what is checked, who is asked for an opinion, what is refused."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest

from kernelwright.contracts import Candidate
from kernelwright.errors import KernelwrightError
from kernelwright.judge.verdict import Outcome
from kernelwright.llm.attempts import AttemptResult
from kernelwright.llm.config import EnsembleConfig, Member, Price
from kernelwright.llm.ensemble import Ensemble
from kernelwright.llm.ledger import BudgetLedger
from kernelwright.llm.model import FailureKind, ModelCall
from kernelwright.proposers.llm import upper_bounds
from kernelwright.proposers.llm.checks import CheckFault
from kernelwright.proposers.llm.proposer import ProposerTools
from kernelwright.proposers.llm.verifiers import Review, majority, ranked
from kernelwright.proposers.llm.view import PromptStage
from kernelwright.proposers.model import MEMBER, USD, Once, Operator, Parent, Refusal, Request
from kernelwright.search.core import lessons
from tests.proposers.llm import acting, samples
from tests.search import toy


@dataclass
class Refusals:
    told: list[tuple[str, str, str, float]] = field(default_factory=list)

    def __call__(self, name: str, why: str, member: str = "", usd: float = 0.0) -> None:
        self.told.append((name, why, member, usd))


def asked(request: Request) -> tuple[Request, Refusals]:
    refusals = Refusals()
    return replace(request, refuse=refusals), refusals


def numbered(texts: list[str]) -> acting.Script:
    """Answers of writers in turn; opinions as usual."""
    left = list(texts)

    def script(ask: ModelCall) -> str | FailureKind:
        return acting.act(ask.prompt.user, ask.seed) if ask.answer is not None else left.pop(0)

    return script


def test_more_is_proposed_than_is_measured_and_the_rest_is_refused_with_a_reason() -> None:
    models = acting.Played()
    request, refusals = asked(samples.request())
    proposals = acting.proposer(models).propose(request)
    assert len(proposals) == 4 and len(refusals.told) == 4
    assert all("not measured: " in why for _, why, _, _ in refusals.told)
    stages = [ask.stage for ask in models.asked]
    assert stages.count("translate") == 8 and stages.count("verify-memory") == 8 * 3 == stages.count("verify-numerics")
    first = proposals[0]
    assert first.origin == "llm translate" and first.genes[MEMBER] in ("one", "two") and first.genes[USD] == 0.01
    assert first.note.startswith("genes") and "Translate the reference" in first.prompt and "```cpp" in first.answer
    assert len({ask.seed for ask in models.asked}) == len(models.asked)


def test_where_there_is_no_choice_nobody_is_asked_for_an_opinion() -> None:
    models = acting.Played()
    acting.proposer(models, generation=3).propose(samples.request())
    assert {ask.stage for ask in models.asked} == {"translate"}


def test_half_of_a_generation_hears_of_the_bottleneck() -> None:
    models = acting.Played()
    acting.proposer(models, generation=4).propose(samples.request(Operator.mutate, samples.parent()))
    assert models.asked[0].stage == "diagnose-bottleneck"
    told = ["Change: change one" in ask.prompt.user for ask in models.asked if ask.stage == "evolve"]
    assert told == [True, False, True, False]


def test_a_repair_is_diagnosed_first_and_asked_of_few() -> None:
    models = acting.Played()
    broken = samples.parent((1,) * 8, outcome=Outcome.rejected)
    proposals = acting.proposer(models).propose(samples.request(Operator.repair, broken))
    stages = [ask.stage for ask in models.asked]
    assert stages == ["diagnose-error", "repair", "repair"]
    assert all("Fix: change one" in ask.prompt.user for ask in models.asked[1:])
    assert all(one.origin == "llm repair" and one.parents == (broken.proposal.candidate.id,) for one in proposals)


def test_what_does_not_build_goes_back_with_the_compilers_words() -> None:
    models = acting.Played(numbered(["```cpp\nint a;\n```", acting.answer((1,) * 8), acting.answer((2,) * 8)]))
    request, refusals = asked(samples.request())
    proposals = acting.proposer(models, generation=2).propose(request)
    repair = models.asked[2]
    assert repair.stage == "repair" and "kernel.cpp:1: error: nothing is used" in repair.prompt.user
    assert [toy.genes_of(one.candidate) for one in proposals] == [(1,) * 8, (2,) * 8] and not refusals.told
    assert proposals[1].genes[USD] == pytest.approx(0.02)


def test_a_long_source_is_mended_by_changes() -> None:
    long = "int a;\n" + "// filler\n" * 1000
    search, new = "int a;", toy.source_of((6,) * 8).strip()
    edit = f"Idea: mended\n<<<<<<< SEARCH\n{search}\n=======\n{new}\n>>>>>>> REPLACE\n"
    models = acting.Played(numbered([f"```cpp\n{long}```", edit]))
    (proposal,) = acting.proposer(models, generation=1).propose(samples.request())
    assert "<<<<<<< SEARCH" in models.asked[1].prompt.user and "what is new" in models.asked[1].prompt.user
    assert toy.genes_of(proposal.candidate) == (6,) * 8 and proposal.candidate.source.count("filler") == 1000


def test_mending_is_bounded() -> None:
    models = acting.Played(lambda ask: "```cpp\nint a;\n```")
    request, refusals = asked(samples.request())
    assert acting.proposer(models, generation=1).propose(request) == []
    assert [ask.stage for ask in models.asked] == ["translate", "repair", "repair"]
    ((_, why, _, usd),) = refusals.told
    assert why == "it does not build: kernel.cpp:1: error: nothing is used" and usd == pytest.approx(0.03)


def test_a_mend_that_failed_has_its_price() -> None:
    said = iter(["```cpp\nint a;\n```", FailureKind.truncated])
    request, refusals = asked(samples.request())
    assert acting.proposer(acting.Played(lambda ask: next(said)), generation=1).propose(request) == []
    ((_, why, _, usd),) = refusals.told
    assert why.endswith("truncated") and usd == pytest.approx(0.02)


def test_the_same_source_is_proposed_once() -> None:
    models = acting.Played(lambda ask: acting.answer((3,) * 8))
    request, refusals = asked(samples.request())
    (proposal,) = acting.proposer(models, generation=4).propose(request)
    assert len(refusals.told) == 3 and all(why == "was proposed before" for _, why, _, _ in refusals.told)
    again, _ = asked(replace(samples.request(), known={proposal.candidate.id}))
    assert acting.proposer(models, generation=2).propose(again) == []


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (FailureKind.refused, "refused"),
        (FailureKind.truncated, "truncated"),
        (FailureKind.rate_limited, "rate_limited"),
        (FailureKind.timed_out, "timed_out"),
        ("I would rather not.", "has no block of code"),
        ("```cpp\nvoid kernel(", "never closed"),
    ],
)
def test_one_bad_answer_costs_nothing_but_itself(said: str | FailureKind, why: str) -> None:
    texts: list[str | FailureKind] = [said, acting.answer((1,) * 8)]
    models = acting.Played(lambda ask: texts.pop(0))
    request, refusals = asked(samples.request())
    (proposal,) = acting.proposer(models, generation=2).propose(request)
    assert toy.genes_of(proposal.candidate) == (1,) * 8
    ((_, told, member, usd),) = refusals.told
    assert why in told and member in ("one", "two") and usd == 0.01


def test_a_generation_without_any_answer_is_refused_call_by_call_with_its_cost() -> None:
    request, refusals = asked(samples.request())
    assert acting.proposer(acting.Played(lambda ask: FailureKind.truncated)).propose(request) == []
    assert len(refusals.told) == 8 and {told[2] for told in refusals.told} == {"one", "two"}
    assert all("truncated" in why and usd == 0.01 for _, why, _, usd in refusals.told)


def test_without_money_the_request_is_refused_for_good_and_without_a_key_the_run_ends() -> None:
    with pytest.raises(Refusal) as caught:
        acting.proposer(acting.Played(limit=0.001)).propose(samples.request())
    assert caught.value.final
    with pytest.raises(KernelwrightError) as wrong_key:
        acting.proposer(acting.Played(lambda ask: FailureKind.unauthorised)).propose(samples.request())
    assert not isinstance(wrong_key.value, Refusal)


def review(passes: bool, confidence: float = 0.5) -> Review:
    return Review(passes=passes, confidence=confidence, reason="because")


def test_a_majority_of_those_who_answer_decides() -> None:
    assert majority(PromptStage.verify_memory, [review(False), review(False), review(True)]).objects
    assert not majority(PromptStage.verify_memory, [review(False), None, review(True)]).objects
    assert not majority(PromptStage.verify_memory, [None, None, None]).objects
    assert majority(PromptStage.verify_memory, [review(False), None, None]).votes == 1


def test_doubted_candidates_come_last_but_are_measured_where_there_is_room() -> None:
    good = [majority(PromptStage.verify_memory, [review(True)])]
    bad = [majority(PromptStage.verify_memory, [review(False, 0.9)])]
    assert ranked([bad, good, good], 2) == ([1, 2], {0: "verify-memory: because"})
    order, left = ranked([bad, good], 2)
    assert order == [1, 0] and not left


def test_a_finalist_is_reviewed_by_several_models() -> None:
    models = acting.Played()
    found = acting.proposer(models).review(toy.candidate_of((1,) * 8), 7)
    assert (found.votes, found.against) == (3, 0)
    assert [ask.member for ask in models.asked] == ["one", "two", "one"]
    assert {ask.stage for ask in models.asked} == {"verify-cheating"}


def test_an_estimate_asks_nobody() -> None:
    models = acting.Played()
    found = acting.proposer(models).estimate(samples.request())
    assert not models.asked and found.calls == 1 + 8 * 3 + 8 * 6 and found.usd == pytest.approx(0.73)


LONG = "// " + "\N{GREEK SMALL LETTER MU}" * 22_000 + "\n"


@pytest.mark.parametrize("operator", [Operator.mutate, Operator.crossover, Operator.repair])
def test_no_generation_costs_more_than_the_estimate(operator: Operator) -> None:
    """Long kernels with long notes, lessons and errors, of which none builds at once."""

    def script(ask: ModelCall) -> str | FailureKind:
        if ask.answer is not None:
            return acting.act(ask.prompt.user, ask.seed)
        genes = tuple(ask.seed >> 3 * index & 7 for index in range(8))
        mended = ask.stage == "repair" and operator is not Operator.repair
        return acting.answer(genes, LONG) if mended else f"```cpp\n{LONG}int a{ask.seed};\n```"

    def check(candidate: Candidate) -> CheckFault | None:
        return acting.builds(candidate) and CheckFault("it does not build", ("\N{GREEK SMALL LETTER MU}" * 400,) * 40)

    models = acting.Played(script)
    proposer = replace(acting.proposer(models), tools=Once(lambda: ProposerTools(samples.ground(), (check,))))
    ones = [long_parent((gene,) * 8) for gene in range(7)]
    first = [samples.parent(outcome=Outcome.rejected)] if operator is Operator.repair else ones[:2]
    parents = tuple(first if operator is Operator.crossover else first[:1])
    learned = upper_bounds.lessons(lessons.MOST, lessons.LENGTH)
    request = replace(samples.request(operator, *parents), inspirations=tuple(ones[2:]), lessons=learned)
    proposer.propose(request)
    stages = {ask.stage for ask in models.asked}
    assert "repair" in stages and ("verify-memory" in stages or operator is Operator.repair)
    priced = Ensemble(EnsembleConfig(members=(member("one"), member("two"))), Nobody(), BudgetLedger(None))
    told = replace(proposer, models=priced).estimate(replace(samples.request(), lessons=learned))
    found = priced.estimate(models.asked)
    assert found.calls <= told.calls and 50_000 * found.calls < found.input_tokens <= told.input_tokens
    assert found.usd is not None and told.usd is not None and found.usd <= told.usd


def long_parent(genes: toy.Genes) -> Parent:
    parent = samples.parent(genes)
    candidate = replace(parent.proposal.candidate, source=LONG + parent.proposal.candidate.source)
    return replace(parent, proposal=replace(parent.proposal, candidate=candidate, note=LONG))


def member(name: str) -> Member:
    return Member(name=name, provider="openai", model="m", price=Price(input=3.0, output=15.0))


class Nobody:
    def send(self, member: Member, request: object) -> AttemptResult:
        raise AssertionError("an estimate asks nobody")

    def close(self) -> None: ...
