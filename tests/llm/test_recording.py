"""A recorded run replays without a server, a key or the client library, with its failures and what it cost."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from kernelwright.llm.config import EnsembleConfig, EnsembleError, Member
from kernelwright.llm.ensemble import open_ensemble
from kernelwright.llm.model import Ask, Called, CallFailed, FailureKind, NotKept, Reply
from tests.llm.asking import Review, asking, opened, scripted_member
from tests.llm.scripted import Behaviour, Good, Refusing, Seen, Status, serving

Outcomes = list[Reply | CallFailed]
ELSEWHERE = "http://127.0.0.1:9/v1"  # nobody is there


def asks() -> list[Ask]:
    return [
        asking("plain"),
        asking("refuse me"),
        asking("limit me"),
        asking("type me", answer=Review),
        asking("type me", answer=Review, seed=2),
    ]


def script(seen: Seen) -> Behaviour:
    """The second attempt at what is limited goes through; typed answers are wrong at first."""
    if "limit me" in seen.prompt:
        return Status(429, retry_after=0.01) if seen.number < 3 else Good("let through")
    if "refuse me" in seen.prompt:
        return Refusing()
    if "type me" in seen.text:
        return Good('{"cheats": true, "why": "x"}' if len(seen.messages) > 2 else "{}")
    return Good(f"plain, {seen.number}")


@pytest.fixture
def recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Outcomes]:
    monkeypatch.setenv("SCRIPTED_KEY", "sk-very-secret")
    folder = tmp_path / "calls"
    with serving(script) as server:
        member = scripted_member(server.url, key_env="SCRIPTED_KEY")
        with opened(member, record=folder) as ensemble:
            outcomes: Outcomes = []
            for ask in asks():
                outcomes += ensemble.ask_all([ask])
    monkeypatch.delenv("SCRIPTED_KEY")
    return folder, outcomes


def replayed(folder: Path, member: Member, wanted: list[Ask]) -> Outcomes:
    with open_ensemble(EnsembleConfig(members=(member,)), replay=folder) as ensemble:
        return ensemble.ask_all(wanted)


def kept(outcome: Reply | CallFailed) -> dict[str, object]:
    called = outcome.called
    assert isinstance(called, Called)
    said = (outcome.text, outcome.value) if isinstance(outcome, Reply) else outcome.kind
    return called.model_dump(exclude={"seconds", "usd", "recorded_usd"}) | {"said": said, "price": called.price}


def test_a_replay_is_the_same_without_network_key_or_library(
    recorded: tuple[Path, Outcomes], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, outcomes = recorded
    for name in [name for name in sys.modules if name.startswith(("pydantic_ai", "kernelwright.llm.client"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "pydantic_ai", None)
    again = replayed(folder, scripted_member(ELSEWHERE, key_env="SCRIPTED_KEY"), asks())
    assert [kept(one) for one in again] == [kept(one) for one in outcomes]
    assert [one.called.attempts for one in again if one.called] == [1, 1, 2, 2, 2]


def test_recordings_hold_no_key(recorded: tuple[Path, Outcomes]) -> None:
    folder, _ = recorded
    files = sorted(folder.iterdir())
    assert len(files) == 8  # one for each attempt
    content = "".join(path.read_text() for path in files)
    assert "secret" not in content
    assert "uthorization" not in content
    assert "127.0.0.1" not in content


@pytest.mark.parametrize(
    ("change", "ask"),
    [
        ({}, asking("never asked")),
        ({}, asking("plain", seed=99)),
        ({"model": "another"}, asking("plain")),
        ({"temperature": 0.5}, asking("plain")),
        ({"reasoning": "low"}, asking("plain")),
        ({"max_output_tokens": 5}, asking("plain")),
    ],
)
def test_anything_else_is_not_recorded(recorded: tuple[Path, Outcomes], change: dict[str, object], ask: Ask) -> None:
    (outcome,) = replayed(recorded[0], scripted_member(ELSEWHERE, **change), [ask])
    assert isinstance(outcome, CallFailed)
    assert outcome.kind == FailureKind.not_recorded


def test_what_an_answer_does_not_depend_on_may_differ(recorded: tuple[Path, Outcomes]) -> None:
    member = scripted_member(ELSEWHERE, name="other", timeout=1.0, concurrency=9, price=None)
    (outcome,) = replayed(recorded[0], member, [asking("plain")])
    assert isinstance(outcome, Reply)
    assert outcome.called.recorded_usd == pytest.approx(0.0006)  # as it was paid then


def test_a_replay_costs_nothing_and_needs_no_money(recorded: tuple[Path, Outcomes]) -> None:
    folder, outcomes = recorded
    told: list[Called] = []
    config = EnsembleConfig(members=(scripted_member(ELSEWHERE),))
    with open_ensemble(config, replay=folder, limit_usd=1e-9, on_called=told.append) as ensemble:
        ensemble.ask_all(asks())
    assert ensemble.spent == 0.0 and [call.usd for call in told] == [0.0] * 5
    assert [call.recorded_usd for call in told] == [one.called.usd for one in outcomes if one.called]


def test_a_damaged_recording_is_none(recorded: tuple[Path, Outcomes]) -> None:
    folder, outcomes = recorded
    assert outcomes[0].called is not None
    (folder / f"{outcomes[0].called.recording}.json").write_text("{")
    (outcome,) = replayed(folder, scripted_member(ELSEWHERE), [asking("plain")])
    assert isinstance(outcome, CallFailed)
    assert outcome.kind == FailureKind.not_recorded


def test_a_replay_needs_its_folder_and_records_nothing(tmp_path: Path) -> None:
    config = EnsembleConfig(members=(scripted_member(ELSEWHERE),))
    with pytest.raises(EnsembleError, match="is not a folder or an archive of recordings"):
        open_ensemble(config, replay=tmp_path / "none")
    with pytest.raises(EnsembleError, match="nothing to record"):
        open_ensemble(config, replay=tmp_path, record=tmp_path)


def test_a_call_whose_recording_cannot_be_written_is_paid_and_told_before_the_line_that_ends_the_run(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "calls"
    with serving(Good()) as server, opened(scripted_member(server.url), record=folder, limit_usd=5.0) as ensemble:
        told: list[Called] = []
        ensemble.on_called = told.append
        folder.rmdir()
        folder.write_text("in the way")
        with pytest.raises(NotKept, match="recordings cannot be kept there"):
            ensemble.ask_all([asking()])
    assert [(call.outcome, call.usd) for call in told] == [("ok", pytest.approx(0.0006))]
    assert ensemble.spent == pytest.approx(0.0006)
