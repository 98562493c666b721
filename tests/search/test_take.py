"""From answers to candidates: duplicates and nonsense are refused before they cost an evaluation."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kernelwright.contracts import Candidate
from kernelwright.errors import KernelwrightError
from kernelwright.proposers.model import Proposal
from kernelwright.search.core.events import Answered, Event, Proposed, Refused
from kernelwright.search.core.state import State, fold
from kernelwright.search.progress import line_of
from kernelwright.search.run import create
from kernelwright.search.summary import generic_steps, refused_words, summary
from kernelwright.search.take import sweep, take
from tests.search import toy
from tests.search.toy import evaluated, proposed


def test_a_duplicate_that_somebody_wrote_is_told_like_any_refusal() -> None:
    state = fold([toy.started(), proposed(1, (1,) * 8)])
    written = Proposal(replace(toy.candidate_of((1,) * 8), name="answer-0004"), "files", answer="the same")
    (refused, _) = take(state, 4, 0, [written], at=5.0, seconds=0.1)
    assert isinstance(refused, Refused)
    assert line_of(refused, state) == "refused: answer-0004 is the same program as candidate 0001"


def taken(*candidates: Candidate, state: State | None = None) -> tuple[Event, ...]:
    proposals = [Proposal(candidate, "toy") for candidate in candidates]
    return take(state or fold([toy.started()]), 7, 0, proposals, at=5.0, seconds=0.1)


def test_new_candidates_are_numbered_on() -> None:
    state = fold([toy.started(), proposed(1, (1,) * 8)])
    first, second, answered = taken(toy.candidate_of((2,) * 8), toy.candidate_of((3,) * 8), state=state)
    assert isinstance(first, Proposed) and isinstance(second, Proposed) and (first.number, second.number) == (2, 3)
    assert answered == Answered(at=5.0, request=7, taken=2, seconds=0.1)


def test_duplicates_are_refused_within_an_answer_and_across() -> None:
    state = fold([toy.started(), proposed(1, (1,) * 8)])
    commented = Candidate("cpp", f"// another\n{toy.source_of((1,) * 8)}")
    spaced = Candidate("cpp", toy.source_of((2,) * 8).replace(" ", "   "))
    events = taken(commented, toy.candidate_of((2,) * 8), spaced, state=state)
    assert [type(event) for event in events] == [Refused, Proposed, Refused, Answered]
    assert isinstance(events[0], Refused) and events[0].duplicate_of == 1
    assert isinstance(events[2], Refused) and events[2].duplicate_of == 2


def test_duplicates_are_counted_apart_from_what_is_refused() -> None:
    state = fold([toy.started(), proposed(1, (1,) * 8)])
    for event in taken(toy.candidate_of((1,) * 8), Candidate("cuda", "x"), state=state):
        state.apply(event)
    assert (state.refused, state.duplicates) == (2, 1)
    words = "1 refused before judging, 1 duplicate of earlier candidates left out"
    assert words == refused_words(state.refused, state.duplicates) and words in summary(state)
    assert refused_words(0, 0) == "0 refused before judging"


@pytest.mark.parametrize(
    ("candidate", "said"),
    [
        (Candidate("cuda", "x"), "this run takes cpp"),
        (Candidate("cpp", "  \n"), "the source is empty"),
        (Candidate("cpp", "int a;\0"), "not text"),
        (Candidate("cpp", "int \ud800;"), "not text"),
        (Candidate("cpp", "x" * (1 << 20) + "y"), "more than 1,048,576 bytes"),
        (Candidate("cpp", "// tunable: A = 1;2\nint a;"), "cannot read '1;2'"),
    ],
)
def test_what_is_no_candidate_is_refused_in_a_line(candidate: Candidate, said: str) -> None:
    refused, answered = taken(candidate)
    assert isinstance(refused, Refused) and said in refused.why and "\n" not in refused.why
    assert isinstance(answered, Answered) and answered.taken == 0


def test_a_hostile_name_stays_a_name() -> None:
    (event, _) = taken(Candidate("cpp", "int a;", "../../etc\n\x1b[31m" + "x" * 500))
    assert isinstance(event, Proposed) and "\n" not in event.name and "\x1b" not in event.name
    assert len(event.name) <= 60


def test_a_sweep_keeps_the_lineage() -> None:
    genes = (1,) * 8
    source = f"// tunable: BLOCK = 32, 64, 128\n{toy.source_of(genes)}"
    event = proposed(1, genes).model_copy(update={"source": source})
    state = fold([toy.started(), event, evaluated(1, genes, 2.0)])
    found = sweep(state.entries[1], seed=3)
    assert {proposal.genes["BLOCK"] for proposal in found} == {"64", "128"}
    assert all(proposal.parents == (state.entries[1].proposal.candidate.id,) for proposal in found)
    assert all("#define BLOCK" in proposal.candidate.source for proposal in found)
    assert len(take(state, 2, 0, found, at=3.0, seconds=0)) == 3


def test_a_note_stays_one_short_line() -> None:
    genes, name = (1,) * 8, "A" * 5000
    source = f"// tunable: {name} = 1, 2\n{toy.source_of(genes)}"
    event = proposed(1, genes).model_copy(update={"source": source, "note": "two\nlines"})
    state = fold([toy.started(), event, evaluated(1, genes, 2.0)])
    (swept, _) = take(state, 2, 0, sweep(state.entries[1], seed=3), at=3.0, seconds=0)
    assert isinstance(swept, Proposed) and swept.note.startswith("two lines with AAA") and len(swept.note) == 200


def test_two_starts_that_are_the_same_are_refused(tmp_path: object) -> None:
    one = Proposal(Candidate("cpp", "int a;", "one.cpp"), "start")
    other = Proposal(Candidate("cpp", "int  a;", "two.cpp"), "start")
    with pytest.raises(KernelwrightError, match=r"two\.cpp: is the same program"):
        create(tmp_path, toy.started(), [one, other])  # type: ignore[arg-type]


def test_lines_that_are_computed_without_speed_are_kept_with_a_candidate() -> None:
    slow = ("cumsum at scan.py:7: h = torch.cumsum(x, 1)",)
    proposal = Proposal(toy.candidate_of((2,) * 8), "toy", generic=slow)
    state = fold([toy.started()])
    events = take(state, 7, 0, [proposal], at=5.0, seconds=0.1)
    assert isinstance(events[0], Proposed) and events[0].proposal.generic == slow
    assert generic_steps(fold([toy.started(), *events])) == slow and generic_steps(state) == ()
