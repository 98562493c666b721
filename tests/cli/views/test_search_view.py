"""What is shown of a search while it goes on."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from rich.console import Console
from tests.search import toy
from tests.search.toy import evaluated, final, numbered_genes, state_with

from kernelwright.cli.views.search_view import Lines, Screen, status, view_for
from kernelwright.judge.verdict import (
    BuildEvidence,
    Evidence,
    JudgeEvidence,
    MismatchEvidence,
    Outcome,
    ProcessEvidence,
    Reason,
    SpeedStatus,
)
from kernelwright.search.core.events import Continued, Evaluated, FinalHeld, Refused, Stopped
from kernelwright.search.core.state import State, fold
from kernelwright.search.driver import for_journal
from kernelwright.search.progress import line_of
from kernelwright.search.summary import summary, why_no_best


def test_where_it_stands() -> None:
    rows = dict(status(state_with(1.0, 3.0, budget="50evals,1h", waiting=2, bounds={"a": 0.1e-3})))
    assert rows["best"] == "none yet" and rows["fastest"] == "0002  about 3.00× (estimate)"
    assert rows["candidates"] == "4, 2 in the queue, 0 refused" and rows["budget left"] == "48 evaluations, 1h"
    crowned = dict(status(state_with(1.0, 3.0, events=(final(1, 2.0, won=True),), bounds={"a": 0.1e-3})))
    assert crowned["best"].startswith("0001  2.00× over the best baseline") and crowned["of the bound"] == "20%"


def test_a_bound_that_is_beaten_is_not_called_one() -> None:
    rows = dict(status(state_with(2.0, events=(final(1, 2.0, won=True),), bounds={"a": 0.57e-3})))
    assert rows["of the bound"].startswith("114% (faster than the bound")


def test_events_in_a_line_each() -> None:
    state = fold([toy.started()])
    assert line_of(evaluated(3, numbered_genes(3), 2.0), state) == "0003  accepted, about 2.00× (estimate)"
    assert (
        line_of(evaluated(3, numbered_genes(3), 2.0, outcome=Outcome.rejected), state)
        == "0003  rejected: its result is wrong"
    )
    assert line_of(Refused(at=1.0, request=1, name="x", why="no", duplicate_of=2), state) is None
    assert line_of(Refused(at=1.0, request=1, name="x.md", why="has no code"), state) == "refused: x.md has no code"
    assert line_of(Stopped(at=1.0, reason="at_the_bound", detail="98%"), state) == "stopped: at the bound 98%"
    assert line_of(Continued(at=1.0, budget=""), state) is None


def test_an_estimate_on_a_noisy_machine_is_marked() -> None:
    event = evaluated(3, numbered_genes(3), 2.0)
    noisy = tuple(one.model_copy(update={"speed": SpeedStatus.noisy}) for one in event.verdict.workloads)
    event = event.model_copy(update={"verdict": event.verdict.model_copy(update={"workloads": noisy})})
    said = line_of(event, fold([toy.started()]))
    assert said == "0003  accepted, about 2.00× (estimate, too noisy to trust)"


def rejected(reason: Reason, evidence: Evidence, number: int = 1) -> Evaluated:
    event = evaluated(number, numbered_genes(number), 2.0, outcome=Outcome.rejected)
    verdict = event.verdict.model_copy(update={"reason": reason, "evidence": evidence})
    return event.model_copy(update={"verdict": verdict, "estimate": None})


MISMATCH = MismatchEvidence(
    workload="rows=4",
    family="normal",
    trial=1,
    result="out",
    index=(0, 3),
    expected="1.5",
    got="nan",
    error=None,
    tolerance=1e-6,
    wrong=7,
    total=8,
    unwritten=0,
    precision=None,
)


@pytest.mark.parametrize(
    ("reason", "evidence", "said"),
    [
        (Reason.judge_failed, JudgeEvidence(message="no space left"), "the judge could not do its work: no space left"),
        (
            Reason.does_not_build,
            BuildEvidence(lines=("In file included from x.h:", "kernel.cpp:3:1: error: no ';'\x1b[2J", "  3 | int")),
            "it does not build: kernel.cpp:3:1: error: no ';' [2J",
        ),
        (Reason.wrong, MISMATCH, "its result is wrong: out[0, 3] is nan, expected 1.5 ± 1e-06"),
        (
            Reason.crashed,
            ProcessEvidence(workload="rows=4", trial=2, ending="was killed by SIGSEGV", output=("error: I am fine",)),
            "it crashed: it was killed by SIGSEGV in trial 2 of rows=4",
        ),
    ],
)
def test_a_rejection_says_what_tells_most(reason: Reason, evidence: Evidence, said: str) -> None:
    assert line_of(rejected(reason, evidence), fold([toy.started()])) == f"0001  rejected: {said}"


def test_a_line_is_cut_between_words() -> None:
    long = rejected(Reason.does_not_build, BuildEvidence(lines=("error: " + "word " * 100,)))
    said = line_of(long, fold([toy.started()]))
    assert said is not None and 150 < len(said) <= 160 and said.endswith("word…")
    assert len(line_of(long, fold([toy.started()]), 60) or "") <= 60


@pytest.mark.parametrize(("answer", "name"), [("", "0012.answer.cpp"), ("Idea: fast\n```\n", "0012.answer.md")])
def test_an_answer_is_named_as_the_file_that_it_is(answer: str, name: str) -> None:
    state = state_with(2.0)
    entry = state.entries[1]
    source = entry.proposal.candidate.source
    entry.proposal = replace(entry.proposal, origin="files evolve 0012", answer=answer or source)
    entry.request = 12
    assert line_of(evaluated(1, numbered_genes(1), 2.0), state) == f"0001 ({name})  accepted, about 2.00× (estimate)"
    entry.proposal = replace(entry.proposal, origin="tunables of 1")
    assert line_of(evaluated(1, numbered_genes(1), 2.0), state) == "0001  accepted, about 2.00× (estimate)"


def test_who_waits_for_an_answer_is_not_the_judge(capsys: pytest.CaptureFixture[str]) -> None:
    with view_for(Console(file=io.StringIO()), quiet=False) as view:
        for said in ("opening the task", "waiting for an answer to 0001.md", "waiting for the device", "building"):
            view.progress(said)
    assert capsys.readouterr().err.splitlines() == [
        "judge  opening the task",
        "files  waiting for an answer to 0001.md",
        "judge  waiting for the device",
    ]


def test_why_there_is_no_best_has_the_judges_own_failures() -> None:
    event = rejected(Reason.judge_failed, JudgeEvidence(message="no space left\non device"))
    state = state_with(1.0)
    state.entries[1].verdict = event.verdict
    assert "the judge failed on 1 candidate: no space left on device" in why_no_best(state)


def noisy(number: int) -> FinalHeld:
    why = "the machine is too noisy to measure its speed"
    return final(number, None, won=False).model_copy(update={"why": why})


def test_why_there_is_no_best_depends_on_how_far_candidates_got() -> None:
    def said(state: State) -> str:
        assert f"- best: none yet; {why_no_best(state)[0]}\n" in summary(state)
        return why_no_best(state)[0]

    assert said(state_with()) == said(state_with(waiting=2)) == "nothing was judged yet"
    wrong = evaluated(1, numbered_genes(1), 1.0, outcome=Outcome.rejected)
    assert said(state_with(1.0, events=(wrong,))) == "none of 1 candidate was accepted"
    assert said(state_with(1.0, 2.0)) == "2 candidates accepted, none finished a final"
    undecided = "2 candidates accepted; 1 final was left undecided (too noisy to tell)"
    assert said(state_with(1.0, 2.0, events=(noisy(2),))) == undecided
    both = "2 candidates accepted; 2 finals were left undecided (too noisy to tell)"
    assert said(state_with(1.0, 2.0, events=(noisy(2), noisy(1)))) == both
    doubted = final(2, 2.0, won=False)  # by reviewers
    assert said(state_with(1.0, 2.0, events=(doubted,))) == "2 candidates accepted, none won its final"


def test_a_final_that_noise_left_undecided_is_not_called_lost() -> None:
    state = state_with(1.0, 2.0)
    assert line_of(noisy(2), state) == "0002  final undecided: the machine is too noisy to measure its speed"
    for decided in (final(2, 2.0, won=False), final(2, 2.0, won=True)):
        assert "undecided" not in (line_of(decided, state) or "")
    wrong = toy.verdict_of(toy.candidate_of(numbered_genes(2)), [], outcome=Outcome.rejected)
    lost = noisy(2).model_copy(update={"verdict": for_journal(wrong)})
    assert (line_of(lost, state) or "").startswith("0002  final lost: ")


def test_a_terminal_gets_a_screen_that_is_drawn_on_events_only() -> None:
    written = io.StringIO()
    console = Console(file=written, force_terminal=True, width=100)
    with view_for(console, quiet=False) as view:
        assert isinstance(view, Screen)
        view(evaluated(1, numbered_genes(1), 2.0), state_with(2.0))
        view.progress("building")
        assert "building" in written.getvalue() and "about 2.00×" in written.getvalue()
        view.progress("rows=4: trial 1")
        length = len(written.getvalue())
        view.progress("rows=4: trial 2")
        assert len(written.getvalue()) == length


def test_a_pipe_gets_plain_lines_and_json_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    event, state = evaluated(1, numbered_genes(1), 2.0), state_with(2.0)
    for quiet, said in ((False, "0001  accepted, about 2.00× (estimate)\n"), (True, "")):
        view = view_for(Console(file=io.StringIO()), quiet=quiet)
        assert isinstance(view, Lines)
        with view:
            view(event, state)
            view.progress("rows=4: trial 1")
        assert capsys.readouterr().out == said
