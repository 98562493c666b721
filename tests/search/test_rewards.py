"""The bandit is told of every answer of a model once, with what it was worth and what it cost."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from kernelwright.contracts import Candidate
from kernelwright.proposers.model import MEMBER, USD, Proposal
from kernelwright.search.core.events import Abandoned, Event, Proposed
from kernelwright.search.core.state import State
from kernelwright.search.models import Rewards
from kernelwright.search.take import sweep, take
from tests.search import toy
from tests.search.toy import evaluated

SWEPT = """// tunable: B = 32, 64
void kernel() { use(B, 1, 1, 1, 1, 1, 1, 1); }
"""
ABANDONED = Abandoned(at=3.0, number=1, why="the deadline", seconds=600.0)


@dataclass
class Told:
    state: State = field(default_factory=State)
    rewards: list[tuple[str, float, float]] = field(default_factory=list)

    def __call__(self, *events: Event) -> None:
        watcher = Rewards(lambda *told: self.rewards.append(told), frozenset({"dear"}))
        for event in events:
            self.state.apply(event)
            watcher(event, self.state)


def written(source: str) -> Proposal:
    return Proposal(Candidate("cpp", source, "a"), "llm evolve", {MEMBER: "dear", USD: 0.5}, answer="an answer")


@pytest.fixture
def told() -> Told:
    made = Told()
    made(toy.started())
    return made


def test_an_answer_that_was_abandoned_gained_nothing_and_has_its_price(told: Told) -> None:
    told(*take(told.state, 1, 0, [written(SWEPT)], 2.0, 0.1), ABANDONED)
    assert told.rewards == [("dear", 0.0, 0.5)]


def test_a_finalist_that_was_abandoned_is_told_of_once(told: Told) -> None:
    told(*take(told.state, 1, 0, [written(SWEPT)], 2.0, 0.1), evaluated(1, (1,) * 8, 2.0), ABANDONED)
    ((member, gain, usd),) = told.rewards
    assert (member, usd) == ("dear", 0.5) and gain > 0


def test_an_answer_that_cannot_be_kept_has_its_price(told: Told) -> None:
    told(*take(told.state, 1, 0, [written("int a;\0")], 2.0, 0.1))
    assert told.rewards == [("dear", 0.0, 0.5)]


def test_variants_of_an_answer_are_not_paid_for_again(told: Told) -> None:
    told(*take(told.state, 1, 0, [written(SWEPT)], 2.0, 0.1), evaluated(1, (1,) * 8, 2.0))
    (variant, *_) = take(told.state, 2, 0, sweep(told.state.entries[1], 1), 3.0, 0.1)
    assert isinstance(variant, Proposed)
    told(variant, evaluated(2, (1,) * 8, 3.0))
    assert [(member, usd) for member, _, usd in told.rewards] == [("dear", 0.5), ("dear", 0.0)]
    told(*take(told.state, 3, 0, sweep(told.state.entries[1], 1), 4.0, 0.1))  # a duplicate, which nobody answered with
    assert len(told.rewards) == 2
