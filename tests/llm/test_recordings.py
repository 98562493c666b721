"""A recorded run replays without a server, a key or the client library, with its failures and what it cost."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from kernelwright.archives import pack, write_archive
from kernelwright.llm.config import EnsembleConfig, EnsembleError, Member
from kernelwright.llm.ensemble import open_ensemble, replayed
from kernelwright.llm.model import CallFailed, CallRecord, FailureKind, ModelCall, ModelReply, RecordingFailed
from kernelwright.llm.recordings import Recording
from tests.llm.asking import Review, asking, opened, scripted_member
from tests.llm.scripted import Behaviour, Good, Refusing, Seen, Status, serving

Outcomes = list[ModelReply | CallFailed]
OTHER_ADDRESS = "http://127.0.0.1:9/v1"  # nobody is there


def asks() -> list[ModelCall]:
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


def replay_once(folder: Path, member: Member, wanted: list[ModelCall]) -> Outcomes:
    with open_ensemble(EnsembleConfig(members=(member,)), replay=folder) as ensemble:
        return ensemble.ask_all(wanted)


def kept(outcome: ModelReply | CallFailed) -> dict[str, object]:
    called = outcome.called
    assert isinstance(called, CallRecord)
    said = (outcome.text, outcome.value) if isinstance(outcome, ModelReply) else outcome.kind
    return called.model_dump(exclude={"seconds", "usd", "recorded_usd"}) | {"said": said, "price": called.price}


def test_a_replay_is_the_same_without_network_key_or_library(
    recorded: tuple[Path, Outcomes], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, outcomes = recorded
    for name in [name for name in sys.modules if name.startswith(("pydantic_ai", "kernelwright.llm.client"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "pydantic_ai", None)
    again = replay_once(folder, scripted_member(OTHER_ADDRESS, key_env="SCRIPTED_KEY"), asks())
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
def test_anything_else_is_not_recorded(
    recorded: tuple[Path, Outcomes], change: dict[str, object], ask: ModelCall
) -> None:
    (outcome,) = replay_once(recorded[0], scripted_member(OTHER_ADDRESS, **change), [ask])
    assert isinstance(outcome, CallFailed)
    assert outcome.kind == FailureKind.not_recorded


def test_what_an_answer_does_not_depend_on_may_differ(recorded: tuple[Path, Outcomes]) -> None:
    member = scripted_member(OTHER_ADDRESS, name="other", timeout=1.0, concurrency=9, price=None)
    (outcome,) = replay_once(recorded[0], member, [asking("plain")])
    assert isinstance(outcome, ModelReply)
    assert outcome.called.recorded_usd == pytest.approx(0.0006)  # as it was paid then


def test_a_replay_costs_nothing_and_needs_no_money(recorded: tuple[Path, Outcomes]) -> None:
    folder, outcomes = recorded
    told: list[CallRecord] = []
    config = EnsembleConfig(members=(scripted_member(OTHER_ADDRESS),))
    with open_ensemble(config, replay=folder, limit_usd=1e-9, on_called=told.append) as ensemble:
        ensemble.ask_all(asks())
    assert ensemble.spent == 0.0 and [call.usd for call in told] == [0.0] * 5
    assert [call.recorded_usd for call in told] == [one.called.usd for one in outcomes if one.called]


def test_a_damaged_recording_is_none(recorded: tuple[Path, Outcomes]) -> None:
    folder, outcomes = recorded
    assert outcomes[0].called is not None
    (folder / f"{outcomes[0].called.recording}.json").write_text("{")
    (outcome,) = replay_once(folder, scripted_member(OTHER_ADDRESS), [asking("plain")])
    assert isinstance(outcome, CallFailed)
    assert outcome.kind == FailureKind.not_recorded


def test_a_replay_needs_its_folder_and_records_nothing(tmp_path: Path) -> None:
    config = EnsembleConfig(members=(scripted_member(OTHER_ADDRESS),))
    with pytest.raises(EnsembleError, match="is not a folder or an archive of recordings"):
        open_ensemble(config, replay=tmp_path / "none")
    with pytest.raises(EnsembleError, match="nothing to record"):
        open_ensemble(config, replay=tmp_path, record=tmp_path)


def test_a_call_whose_recording_cannot_be_written_is_paid_and_told_before_the_line_that_ends_the_run(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "calls"
    with serving(Good()) as server, opened(scripted_member(server.url), record=folder, limit_usd=5.0) as ensemble:
        told: list[CallRecord] = []
        ensemble.on_called = told.append
        folder.rmdir()
        folder.write_text("in the way")
        with pytest.raises(RecordingFailed, match="recordings cannot be kept there"):
            ensemble.ask_all([asking()])
    assert [(call.outcome, call.usd) for call in told] == [("ok", pytest.approx(0.0006))]
    assert ensemble.spent == pytest.approx(0.0006)


ELSEWHERE = "http://127.0.0.1:9/v1"


def about(source: str, figure: float, seed: int, **given: object) -> ModelCall:
    return asking(f"It takes {figure} ms.\n\n```cpp\n{source}\n```\n", seed, **given)


TAPE = [
    about("first", 1.0, 1, stage="translate"),
    about("one", 1.5, 2),
    about("two", 2.5, 3),
    about("three", 3.5, 4),
    about("one", 1.5, 5, stage="verify-memory", answer=Review),
    about("one", 1.5, 6, stage="verify-memory", answer=Review),
    about("one", 1.5, 7, stage="verify-numerics", answer=Review),
]


@pytest.fixture(scope="module")
def tape(tmp_path_factory: pytest.TempPathFactory) -> Path:
    def script(seen: Seen) -> Behaviour:
        return Good(f'{{"cheats": false, "why": "opinion {seen.number}"}}' if seen.number > 3 else f"{seen.number}")

    folder = tmp_path_factory.mktemp("tape")
    with serving(script) as server, opened(scripted_member(server.url), record=folder) as ensemble:
        for ask in TAPE:
            ensemble.ask(ask)
    return folder


def found(tape: Path, *asks: ModelCall, used: tuple[str, ...] = ()) -> list[tuple[str, str]]:
    """Whose answer each got, and how that was found."""
    with replayed(EnsembleConfig(members=(scripted_member(ELSEWHERE),)), tape, used) as ensemble:
        return [_said(one) for one in ensemble.ask_all(asks)]


def _said(one: ModelReply | CallFailed) -> tuple[str, str]:
    if isinstance(one, CallFailed):
        assert one.called is not None and one.called.match is None
        return "", str(one.kind)
    return (one.value.why if isinstance(one.value, Review) else one.text), str(one.called.match)


def test_the_very_request_comes_first_then_the_call_then_what_is_quoted_then_the_order(tape: Path) -> None:
    assert found(tape, TAPE[1]) == [("1", "request")]
    assert found(tape, about("other", 9.0, 2)) == [("1", "call")]
    assert found(tape, about("two", 9.0, 99)) == [("2", "material")]
    assert found(tape, about("other", 9.0, 99)) == [("1", "order")]


def test_an_answer_is_given_once_but_for_the_call_that_it_was_to(tape: Path) -> None:
    others = [about("other", 9.0, seed) for seed in range(90, 94)]
    assert found(tape, TAPE[2], *others, TAPE[2]) == [
        ("2", "request"),
        ("1", "order"),
        ("3", "order"),
        ("", "not_recorded"),
        ("", "not_recorded"),
        ("2", "request"),
    ]


def test_a_run_that_goes_on_takes_those_that_it_has_not_had(tape: Path) -> None:
    members = EnsembleConfig(members=(scripted_member(ELSEWHERE),))
    with replayed(members, tape) as ensemble:
        first = ensemble.ask(about("other", 9.0, 90)).called
    assert found(tape, about("other", 9.0, 91), used=(first.recording,)) == [("2", "order")]


def test_a_stage_is_answered_by_itself_alone(tape: Path) -> None:
    assert found(tape, about("other", 9.0, 99, stage="translate")) == [("0", "order")]
    assert found(tape, about("other", 9.0, 99, stage="repair")) == [("", "not_recorded")]


def test_an_opinion_is_about_what_it_is_about(tape: Path) -> None:
    """Votes on the same source are cast in order; none is lent to another source, or by another verifier."""

    def ask(source: str, stage: str, seed: int) -> ModelCall:
        return about(source, 9.0, seed, stage=stage, answer=Review)

    votes = [ask("one", "verify-memory", seed) for seed in (90, 91, 92)]
    assert found(tape, *votes) == [("opinion 4", "material"), ("opinion 5", "material"), ("", "not_recorded")]
    assert found(tape, ask("one", "verify-numerics", 90)) == [("opinion 6", "material")]
    assert found(tape, ask("other", "verify-memory", 90)) == [("", "not_recorded")]
    assert found(tape, ask("one", "verify-cheating", 90)) == [("", "not_recorded")]


def test_recordings_of_before_stages_were_kept_are_found_by_their_calls(tape: Path, tmp_path: Path) -> None:
    for path in tape.glob("*.json"):
        old = Recording.model_validate_json(path.read_bytes())
        (tmp_path / path.name).write_text(old.model_dump_json(exclude={"stage", "order"}))
    assert found(tmp_path, TAPE[1], about("other", 9.0, 3)) == [("1", "request"), ("2", "call")]
    assert found(tmp_path, about("two", 9.0, 99)) == [("", "not_recorded")]


def test_whatever_else_is_quoted_does_not_close_a_quotation(tape: Path) -> None:
    inner = about("```\ntwo\n```", 9.0, 99, stage="verify-memory", answer=Review)
    assert found(tape, inner) == [("", "not_recorded")]


def test_nothing_is_spent_and_what_was_paid_is_known_however_an_answer_is_found(tape: Path) -> None:
    asks = [TAPE[1], about("other", 9.0, 3), about("three", 9.0, 99), about("new", 9.0, 98)]
    with replayed(EnsembleConfig(members=(scripted_member(ELSEWHERE),)), tape) as ensemble:
        calls = [one.called for one in ensemble.ask_all(asks)]
    assert [call.match for call in calls if call] == ["request", "call", "material", None]
    assert [(call.usd, call.recorded_usd) for call in calls if call] == [(0.0, pytest.approx(0.0006))] * 3 + [(0, None)]
    assert ensemble.spent == 0.0


def test_an_archive_of_recordings_answers_as_its_folder_does(tape: Path, tmp_path: Path) -> None:
    archive = tmp_path / "tape.tar.xz"
    write_archive(archive, pack(tape))
    assert found(archive, *TAPE) == found(tape, *TAPE)
