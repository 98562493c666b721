"""Each provider in its own language: what is sent, what is read from the answer, and what its failures become."""

from __future__ import annotations

from typing import Any

import pytest

from kernelwright.llm.config import EnsembleError, Member
from kernelwright.llm.model import CallFailed, FailureKind
from tests.llm.asking import Review, asking, opened, scripted_member
from tests.llm.scripted import BadBody, Behaviour, Dropped, Good, Refusing, Server, Status, Truncated, serving

MODELS = {
    "openai": "gpt-5",
    "openai-chat": "gpt-5",
    "openrouter": "qwen/qwen3-coder",
    "ollama": "qwen3",
    "anthropic": "claude-sonnet-4-6",
    "google": "gemini-2.5-pro",
}
REVIEW = '{"cheats": true, "why": "sleeps"}'


def member_of(provider: str, server: Server, **given: Any) -> Member:
    url = server.root if provider in ("anthropic", "google") else server.url
    return scripted_member(url, provider=provider, model=MODELS.get(provider, "m"), key_env="SCRIPTED_KEY", **given)


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCRIPTED_KEY", "sk-very-secret")


@pytest.mark.parametrize("provider", MODELS)
def test_text_and_usage(provider: str) -> None:
    with serving(Good("hi", tokens=(120, 60))) as server, opened(member_of(provider, server)) as ensemble:
        reply = ensemble.ask(asking("please"))
    assert reply.text == "hi"
    assert (reply.called.usage.input_tokens, reply.called.usage.output_tokens) == (120, 60)
    seen = server.seen[0]
    assert "You write kernels." in seen.text
    assert "please" in seen.prompt
    assert "secret" not in seen.text + seen.path
    assert "sk-very-secret" in str(seen.headers)


@pytest.mark.parametrize("provider", MODELS)
def test_typed_answers(provider: str) -> None:
    with serving([Good("{}"), Good(REVIEW)]) as server, opened(member_of(provider, server)) as ensemble:
        reply = ensemble.ask(asking(answer=Review))
    assert reply.value == Review(cheats=True, why="sleeps")
    assert "cheats" in server.seen[0].text  # the schema
    assert "Field required" in server.seen[1].prompt


@pytest.mark.parametrize("provider", ["openai", "anthropic", "google"])
@pytest.mark.parametrize(
    ("behaviour", "kind", "attempts"),
    [
        (Truncated(), FailureKind.truncated, 1),
        (Refusing(), FailureKind.refused, 1),
        (Refusing(finish="content_filter"), FailureKind.refused, 1),
        (Status(429, retry_after=0.01), FailureKind.rate_limited, 2),
        (Status(500), FailureKind.unavailable, 2),
        (Status(529), FailureKind.unavailable, 2),
        (Status(401), FailureKind.unauthorised, 1),
        (Status(404), FailureKind.unavailable, 1),
        (BadBody(), FailureKind.malformed, 2),
        (Dropped(), FailureKind.unavailable, 2),
        (Good(delay=0.4), FailureKind.timed_out, 2),
    ],
)
def test_failures_have_the_same_names(provider: str, behaviour: Behaviour, kind: FailureKind, attempts: int) -> None:
    with serving(behaviour) as server:
        member = member_of(provider, server, attempts=2, timeout=0.1 if kind == FailureKind.timed_out else 5.0)
        with opened(member) as ensemble, pytest.raises(CallFailed) as failed:
            ensemble.ask(asking())
    assert failed.value.kind == kind
    assert failed.value.called is not None
    assert failed.value.called.attempts == attempts >= len(server.seen)  # the SDKs do not retry on their own


@pytest.mark.parametrize("provider", MODELS)
@pytest.mark.parametrize("body", ["{}", '{"choices": 3, "output": 3, "content": 3, "candidates": 3}'])
def test_json_of_another_kind_is_malformed(provider: str, body: str) -> None:
    with (
        serving(BadBody(body)) as server,
        opened(member_of(provider, server, attempts=1)) as ensemble,
        pytest.raises(CallFailed) as failed,
    ):
        ensemble.ask(asking())
    assert failed.value.kind == FailureKind.malformed


def sent_by(provider: str, **given: Any) -> dict[str, Any]:
    with serving(Good()) as server, opened(member_of(provider, server, **given)) as ensemble:
        ensemble.ask(asking(seed=2**40 + 5))
    return server.seen[0].body


def test_openai_keeps_nothing_and_counts_reasoning() -> None:
    with serving(Good(tokens=(100, 50))) as server, opened(member_of("openai", server, reasoning="low")) as ensemble:
        usage = ensemble.ask(asking()).called.usage
    body = server.seen[0].body
    assert body["store"] is False
    assert (body["reasoning"]["effort"], body["max_output_tokens"]) == ("low", 16_384)
    assert (usage.cached_tokens, usage.reasoning_tokens) == (50, 25)


def test_anthropic_settings() -> None:
    body = sent_by("anthropic", temperature=0.5, max_output_tokens=1000)
    assert (body["model"], body["max_tokens"], body["temperature"]) == ("claude-sonnet-4-6", 1000, 0.5)
    assert body["system"]
    thinking = sent_by("anthropic", reasoning="high", max_output_tokens=32_000)
    assert "thinking" in thinking or "output_config" in thinking


def test_google_settings() -> None:
    given = sent_by("google", temperature=0.5, max_output_tokens=1000)["generationConfig"]
    assert (given["temperature"], given["maxOutputTokens"], given["seed"]) == (0.5, 1000, 5)


def test_settings_of_compatible_servers() -> None:
    body = sent_by("ollama", temperature=0.25, max_output_tokens=77)
    assert (body["temperature"], body["max_tokens"], body["seed"]) == (0.25, 77, 5)


ELSEWHERE = "http://127.0.0.1:9/v1"
SDK_VARIABLES = {
    "OPENAI_BASE_URL": ELSEWHERE,
    "OPENAI_API_KEY": "other-secret",
    "OPENAI_ADMIN_KEY": "other-secret",
    "OPENAI_ORG_ID": "other-secret",
    "OPENAI_PROJECT_ID": "other-secret",
    "OPENAI_CUSTOM_HEADERS": "x-other: other-secret",
    "OPENROUTER_API_KEY": "other-secret",
    "OLLAMA_BASE_URL": ELSEWHERE,
    "OLLAMA_API_KEY": "other-secret",
    "ANTHROPIC_BASE_URL": ELSEWHERE,
    "ANTHROPIC_API_KEY": "other-secret",
    "ANTHROPIC_AUTH_TOKEN": "other-secret",
    "ANTHROPIC_CUSTOM_HEADERS": "x-other: other-secret",
    "GOOGLE_GEMINI_BASE_URL": ELSEWHERE,
    "GOOGLE_API_KEY": "other-secret",
    "GEMINI_API_KEY": "other-secret",
}


@pytest.mark.parametrize("provider", [*MODELS, "compatible"])
def test_variables_of_the_sdks_send_nothing_elsewhere(provider: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The configuration says where a prompt goes and which key goes with it, and nothing else does."""
    for name, value in SDK_VARIABLES.items():
        monkeypatch.setenv(name, value)
    with serving(Good()) as server, opened(member_of(provider, server, attempts=1)) as ensemble:
        ensemble.ask(asking())
    assert "other-secret" not in str(server.seen[0])


def test_a_model_that_the_library_refuses_gets_one_line() -> None:
    member = Member(provider="openrouter", model="without-maker", key_env="SCRIPTED_KEY")
    with pytest.raises(EnsembleError, match="without-maker: OpenRouter model names must be prefixed"):
        opened(member)
