"""What a run learns: errors and what mended them, repairs that are bounded, and who is shown as an example."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kernelwright.contracts import Candidate
from kernelwright.judge.verdict import BuildEvidence, DomainFailure, Outcome, Reason, Stage, author_view
from kernelwright.proposers.llm.shown import ON_PUBLIC, fault_of
from kernelwright.proposers.model import Lesson, Operator, Proposal
from kernelwright.search.core.events import Answered, Ask, Evaluated, Planned
from kernelwright.search.core.lessons import lessons
from kernelwright.search.core.policies import policy_named
from kernelwright.search.core.scheduler import decide, inspirations, repairable
from kernelwright.search.core.score import estimate
from kernelwright.search.core.state import State, fold
from kernelwright.search.take import as_event
from tests.search import toy


class Told:
    """A run in which candidates are proposed and judged by hand."""

    def __init__(self) -> None:
        self.state = fold([toy.started(repairs=2, proposer="llm")])
        self.requests = 0

    def judged(
        self, genes: toy.Genes, reason: Reason, *, line: str = "", repair_of: int | None = None, note: str = ""
    ) -> int:
        state, number = self.state, len(self.state.entries) + 1
        parents = () if repair_of is None else (repair_of,)
        operator = Operator.fresh if repair_of is None else Operator.repair
        self.requests += 1
        ask = Ask(request=self.requests, operator=operator, count=1, seed=1, parents=parents)
        state.apply(Planned(at=1.0, actions=(ask,)))
        candidate = Candidate("cpp", toy.source_of(genes), "a")
        ids = tuple(state.entries[one].proposal.candidate.id for one in parents)
        origin = "llm repair" if parents else "llm translate"
        state.apply(as_event(state, Proposal(candidate, origin, {}, note, ids), number, self.requests, 0, 1.0))
        state.apply(Answered(at=1.0, request=self.requests, taken=1, seconds=0.0))
        right = reason is Reason.right
        verdict = toy.verdict_of(
            candidate, [("a", 2.0, False)], outcome=Outcome.accepted if right else Outcome.rejected
        )
        evidence = BuildEvidence(lines=tuple(line.split("\n"))) if line else None
        seen = author_view(verdict.model_copy(update={"reason": reason, "evidence": evidence}))
        state.queue.pop(number)
        state.apply(Evaluated(at=1.0, number=number, verdict=seen, estimate=estimate(seen), seconds=0.0))
        return number


def test_a_lesson_of_the_domain_check_names_the_kind_of_values() -> None:
    verdict = toy.verdict_of(toy.candidate_of((1,) * 8), [("a", 2.0, False)], outcome=Outcome.rejected)
    failed: dict[str, object] = {"reason": Reason.nan_or_inf, "failed_on_hidden": True, "stage": Stage.domain}
    failed["domain_failure"] = DomainFailure(special="infinities", ordinary_right=True)
    seen = author_view(verdict.model_copy(update=failed))
    told = Told()
    number = told.judged((1,) * 8, Reason.wrong)
    told.state.entries[number].verdict = seen
    (lesson,) = lessons(told.state)
    assert lesson.fault == "its result is wrong in the domain check, on special values: infinities"
    assert fault_of(seen) == f"{lesson.fault}; {ON_PUBLIC}"


def id_of(told: Told, number: int) -> str:
    return told.state.entries[number].proposal.candidate.id


def test_an_error_is_told_with_what_mended_it() -> None:
    told = Told()
    broken = told.judged((1,) * 8, Reason.does_not_build, line="kernel.cpp:3: error: no name")
    assert lessons(told.state) == (Lesson("it does not build: kernel.cpp:3: error: no name"),)
    told.judged((2,) * 8, Reason.right, repair_of=broken, note="declared it")
    assert lessons(told.state) == (Lesson("it does not build: kernel.cpp:3: error: no name", "declared it"),)


IN_GLUE = "In file included from glue.cpp:3:"


@pytest.mark.parametrize(
    "error",
    [
        "kernel.cpp:7:5: error: 'x' was not declared in this scope",
        "kernel.cpp:1:10: fatal error: nowhere.h: No such file or directory",
        'kernel.cu(7): error: identifier "x" is undefined',
        "kernel.cu(7): error #20: no such name",
        "kernel.cpp:(.text+0x5): undefined reference to `f'",
    ],
)
def test_errors_are_told_apart_by_what_they_say(error: str) -> None:
    told = Told()
    told.judged((1,) * 8, Reason.does_not_build, line=f"{IN_GLUE}\nkernel.cpp: In function 'kernel':\n{error}\nnote: x")
    told.judged((2,) * 8, Reason.does_not_build, line=f"{IN_GLUE}\nkernel.cpp:9:1: error: another")
    said = [f"it does not build: {error}", "it does not build: kernel.cpp:9:1: error: another"]
    assert [lesson.fault for lesson in lessons(told.state)] == said


def test_without_an_error_the_first_line_is_told() -> None:
    told = Told()
    told.judged((1,) * 8, Reason.does_not_build, line=f"{IN_GLUE}\ncollect2: error: ld returned 1 exit status")
    assert lessons(told.state) == (Lesson(f"it does not build: {IN_GLUE}"),)


def test_repairs_in_a_row_are_bounded() -> None:
    told = Told()
    first = told.judged((1,) * 8, Reason.crashed)
    assert repairable(told.state) == first
    second = told.judged((2,) * 8, Reason.crashed, repair_of=first)
    assert repairable(told.state) == second and told.state.entries[second].depth == 1
    third = told.judged((3,) * 8, Reason.crashed, repair_of=second)
    assert told.state.entries[third].depth == 2 and repairable(told.state) is None


def test_once_something_is_right_repairs_come_now_and_then() -> None:
    told = Told()
    told.judged((5,) * 8, Reason.right)
    told.judged((1,) * 8, Reason.wrong)
    assert told.state.requests % 3 and repairable(told.state) is None
    told.judged((2,) * 8, Reason.right)
    assert repairable(told.state) == 2


def test_a_repair_is_asked_for_with_the_fastest_right_kernel_beside_it() -> None:
    told = Told()
    for number in range(1, 7):
        told.judged((number,) * 8, Reason.right)
    assert inspirations(told.state) == (5, 4, 3, 2, 1) and inspirations(told.state, (1,)) == (6, 5, 4, 3, 2)
    swept = replace(told.state.entries[6].proposal, origin="tunables of 5", parents=(id_of(told, 5),))
    told.state.entries[6].proposal = swept
    assert inspirations(told.state) == (5, 4, 3, 2, 1) and inspirations(told.state, (5,)) == (4, 3, 2, 1)
    told = Told()
    broken = told.judged((1,) * 8, Reason.wrong)
    (ask,) = (action for action in decide(told.state, policy_named("greedy")) if isinstance(action, Ask))
    assert ask.operator is Operator.repair and ask.parents == (broken,)


def test_a_proposer_that_cannot_read_is_not_asked_to_repair() -> None:
    told = Told()
    told.state = State(started=toy.started(repairs=0))
    told.judged((1,) * 8, Reason.wrong)
    assert repairable(told.state) is None
