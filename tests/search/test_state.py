"""The fold: the same events give the same state, however they are cut, and each takes the same time."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelwright.judge.verdict import Outcome
from kernelwright.proposers.model import Operator
from kernelwright.search.core.events import (
    Answered,
    Ask,
    Continued,
    Evaluate,
    Event,
    FinalHeld,
    Planned,
    Stopped,
    event_of,
)
from kernelwright.search.core.state import Standing, State, fold
from kernelwright.search.driver import for_journal
from kernelwright.search.journal import Journal, read
from tests.search import toy
from tests.search.toy import evaluated, proposed


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> tuple[Event, ...]:
    root = tmp_path_factory.mktemp("history")
    toy.search(root, policy="islands", budget="40evals")
    return tuple(read(root / "toy-1"))


def test_any_prefix_replayed_is_the_state_that_was_live(history: tuple[Event, ...]) -> None:
    live = State()
    for index, event in enumerate(history):
        live.apply(event)
        if index % 7 == 0 or index == len(history) - 1:
            assert fold(history[: index + 1]) == live


@given(cut=st.integers(0, 200))
@settings(max_examples=20)
def test_a_journal_cut_anywhere_and_written_in_two_parts_reads_the_same(
    history: tuple[Event, ...], tmp_path_factory: pytest.TempPathFactory, cut: int
) -> None:
    folder = tmp_path_factory.mktemp("cut")
    for part in (history[:cut], history[cut:]):
        journal = Journal(folder)
        if part:
            journal.append(part)
        journal.close()
    assert fold(read(folder)) == fold(history)


def test_events_survive_their_json(history: tuple[Event, ...]) -> None:
    assert [event_of.validate_json(event.model_dump_json()) for event in history] == list(history)


def test_an_answer_and_an_evaluation_may_come_in_either_order() -> None:
    first, second = (1,) * 8, (2,) * 8
    ask = Ask(request=2, operator=Operator.fresh, count=1, seed=1)
    head: list[Event] = [
        toy.started(),
        Continued(at=1.0, budget="9evals"),
        proposed(1, first),
        Planned(at=1.0, actions=(ask, Evaluate(number=1))),
    ]
    answer: list[Event] = [proposed(2, second, 2.0, 2), Answered(at=2.0, request=2, taken=1, seconds=0)]
    evaluation: list[Event] = [evaluated(1, first, 2.0)]
    one, other = fold([*head, *answer, *evaluation]), fold([*head, *evaluation, *answer])
    assert one == other and not one.pending and list(one.queue) == [2]


def test_only_time_with_a_driver_at_work_counts() -> None:
    state = fold(
        [
            toy.started(at=100.0),
            Continued(at=100.0, budget="1h"),
            proposed(1, (1,) * 8, 107.0),
            Continued(at=5000.0, budget="1h"),
            Stopped(at=5003.0, reason="budget"),
        ]
    )
    assert state.spent.wall == pytest.approx(10.0) and state.sessions == 2


def test_time_is_counted_by_a_clock_that_nobody_sets_where_the_journal_has_it() -> None:
    old: list[Event] = [toy.started(at=100.0), Continued(at=100.0, budget="1h"), proposed(1, (1,) * 8, 107.0)]
    new: list[Event] = [
        Continued(at=5000.0, budget="1h", after=0.1),
        proposed(2, (2,) * 8, 9000.0).model_copy(update={"after": 2.0}),
        Stopped(at=4000.0, reason="budget", after=5.0),
    ]
    assert fold([*old, *new]).spent.wall == pytest.approx(12.0)


def test_a_clock_that_was_set_back_takes_nothing_off() -> None:
    state = fold([toy.started(at=100.0), proposed(1, (1,) * 8, 110.0), proposed(2, (2,) * 8, 50.0)])
    assert state.spent.wall == pytest.approx(10.0)


def test_a_candidate_that_turns_out_wrong_is_no_parent_any_more() -> None:
    genes = (1,) * 8
    events: list[Event] = [toy.started(), proposed(1, genes), evaluated(1, genes, 3.0)]
    state = fold(events)
    assert state.leader == 1 and [kept.number for kept in state.archive] == [1]
    wrong = toy.verdict_of(toy.candidate_of(genes), [], outcome=Outcome.rejected)
    state.apply(
        FinalHeld(
            at=3.0, challenger=1, best=None, verdict=for_journal(wrong), estimate=None, score=None, won=False,
            why="rejected", judgings=1, seconds=1,
        )
    )  # fmt: skip
    assert state.leader is None and list(state.archive) == [] and state.best is None
    assert state.entries[1].standing is Standing.rejected


def test_ten_thousand_events_take_as_long_each_as_the_first() -> None:
    state = fold([toy.started(), Continued(at=1.0, budget="1h")])
    laps = []
    for lap in range(10):
        begin = time.process_time()
        for number in range(lap * 500 + 1, lap * 500 + 501):
            genes = tuple((number >> (3 * place)) % 8 for place in range(8))
            state.apply(proposed(number, genes))
            state.apply(evaluated(number, genes, toy.speed(genes)))
        laps.append(time.process_time() - begin)
    assert min(laps[-3:]) < 3 * max(laps[:3])


def test_what_a_journal_holds_has_nothing_hidden(tmp_path: Path) -> None:
    """The toy's hidden workload is called c; its label must not be in the file that a proposer may read."""
    toy.search(tmp_path, budget="30evals")
    events = list(read(tmp_path / "toy-1"))
    assert any(isinstance(event, FinalHeld) and event.verdict.hidden.judged for event in events)
    assert not any('"label":"c"' in event.model_dump_json() for event in events)
