"""Whether models answer at all: when a run gives up asking, and when it does not."""

from __future__ import annotations

import pytest

from kernelwright.llm.config import read_config
from kernelwright.llm.model import CallRecord, FailureKind, Usage
from kernelwright.search.core.events import Ask, Continued, ModelCalled, Stop, StopReason
from kernelwright.search.core.policies import Greedy
from kernelwright.search.core.scheduler import UNPRODUCTIVE, decide
from kernelwright.search.core.state import State
from tests.search.toy import barren, state_with

ENSEMBLE = read_config(None, ["ollama:one", "ollama:two"]).model_dump()


def called(member: str, outcome: FailureKind | None) -> ModelCalled:
    call = CallRecord(
        stage="translate", member=member, model=member, seconds=1, attempts=4, usage=Usage(), usd=0.0,
        outcome=outcome or "ok", detail="no connection" if outcome else "", prompt_sha256="", recording="",
    )  # fmt: skip
    return ModelCalled(at=1000.0, call=call)


def after(*calls: tuple[str, FailureKind | None], answers: int = 1) -> State:
    events = (*(called(*one) for one in calls), *(barren(number) for number in range(1, answers + 1)))
    return state_with(events=events, ensemble=ENSEMBLE, generation=8, measure=4)


@pytest.mark.parametrize("kind", [FailureKind.unavailable, FailureKind.timed_out])
def test_a_run_stops_when_nobody_ever_answered(kind: FailureKind) -> None:
    (stop,) = decide(after(*[("one", kind), ("two", kind)] * 2), Greedy())
    assert stop == Stop(reason=StopReason.unanswered, detail="two: no connection")


@pytest.mark.parametrize(
    "calls",
    [
        [("one", FailureKind.unavailable), ("two", FailureKind.unavailable)],
        [("one", FailureKind.unavailable)] * 8,
        [*[("one", FailureKind.unavailable)] * 8, ("two", FailureKind.refused)],
        [*[("one", FailureKind.unavailable)] * 8, ("two", None)],
        [("one", None), *[("one", FailureKind.unavailable), ("two", FailureKind.unavailable)] * 4],
    ],
    ids=["too few", "one was not asked", "one refused", "one answered", "one answered before"],
)
def test_it_goes_on_while_somebody_may_answer(calls: list[tuple[str, FailureKind | None]]) -> None:
    (ask,) = decide(after(*calls), Greedy())
    assert isinstance(ask, Ask)


def test_those_that_answered_once_are_given_more_time_and_not_for_ever() -> None:
    calls = [("one", None), *[("one", FailureKind.unavailable), ("two", FailureKind.unavailable)] * 4]
    (stop,) = decide(after(*calls, answers=UNPRODUCTIVE), Greedy())
    assert isinstance(stop, Stop) and stop.reason is StopReason.unanswered


def test_a_run_that_is_taken_up_again_asks_again() -> None:
    state = after(*[("one", FailureKind.unavailable), ("two", FailureKind.unavailable)] * 2)
    state.apply(Continued(at=1000.0, budget="1000evals"))
    (ask,) = decide(state, Greedy())
    assert isinstance(ask, Ask)


@pytest.mark.parametrize("kind", [FailureKind.over_budget, FailureKind.not_recorded])
def test_what_was_never_sent_is_no_answer(kind: FailureKind) -> None:
    gone = FailureKind.unavailable
    (stop,) = decide(after(("one", gone), ("two", kind), ("two", gone), ("one", gone), ("two", gone)), Greedy())
    assert isinstance(stop, Stop) and stop.reason is StopReason.unanswered
