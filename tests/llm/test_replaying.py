"""A replay takes the nearest answer that was recorded, says how it was found, and never lends an opinion."""

from __future__ import annotations

from pathlib import Path

import pytest

from kernelwright.archives import pack, write_archive
from kernelwright.llm.config import EnsembleConfig
from kernelwright.llm.model import Ask, CallFailed, Reply
from kernelwright.llm.recording import Recording
from kernelwright.llm.replaying import replayed
from tests.llm.asking import Review, asking, opened, scripted_member
from tests.llm.scripted import Behaviour, Good, Seen, serving

ELSEWHERE = "http://127.0.0.1:9/v1"


def about(source: str, figure: float, seed: int, **given: object) -> Ask:
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


def found(tape: Path, *asks: Ask, used: tuple[str, ...] = ()) -> list[tuple[str, str]]:
    """Whose answer each got, and how that was found."""
    with replayed(EnsembleConfig(members=(scripted_member(ELSEWHERE),)), tape, used) as ensemble:
        return [_said(one) for one in ensemble.ask_all(asks)]


def _said(one: Reply | CallFailed) -> tuple[str, str]:
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

    def ask(source: str, stage: str, seed: int) -> Ask:
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
