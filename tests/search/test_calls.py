"""How a run's calls fared, in words and in numbers."""

from __future__ import annotations

import pytest

from kernelwright.llm.model import CallRecord, FailureKind, Match, Usage
from kernelwright.search.core.events import Event, ModelCalled, Stopped
from kernelwright.search.models import call_outcomes


def called(outcome: str, match: Match | None = None) -> Event:
    call = CallRecord(
        stage="evolve",
        member="m",
        model="m",
        seconds=0.1,
        attempts=1,
        usage=Usage(),
        usd=0.0,
        outcome="ok" if outcome == "ok" else FailureKind(outcome),
        prompt_sha256="",
        recording="",
        match=match,
    )
    return ModelCalled(at=1.0, call=call)


@pytest.mark.parametrize(
    ("events", "said"),
    [
        ([], ""),
        ([called("ok"), Stopped(at=2.0, reason="budget")], ""),
        ([called("ok"), called("timed_out"), called("timed_out")], "without an answer: 2 timed out"),
        (
            [*[called("ok", Match.request)] * 9, *[called("ok", Match.order)] * 2, *[called("not_recorded")] * 3],
            "answered from recordings: 9 by the very request, 2 by order, 3 not recorded",
        ),
    ],
)
def test_in_a_line(events: list[Event], said: str) -> None:
    assert call_outcomes(events).line == said


def test_all_calls_are_counted_and_the_ways_of_those_that_were_answered() -> None:
    found = call_outcomes([called("ok", Match.call), called("truncated", Match.call), called("not_recorded")])
    assert found.outcomes == {"ok": 1, "truncated": 1, "not_recorded": 1} and found.matches == {"call": 1}
