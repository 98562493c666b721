"""Who is in an ensemble, and what a wrong configuration is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from kernelwright.llm.config import EnsembleError, Member, parse_member, read_config

FILE = """
evaluation_usd = 0.01

[[members]]
name = "thinker"
provider = "openai"
model = "gpt-5"
reasoning = "high"
max_output_tokens = 32000
price = { input = 1.0, output = 8.0 }

[[members]]
provider = "compatible"
model = "coder"
base_url = "http://127.0.0.1:8000/v1/"
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "ensemble.toml"
    path.write_text(FILE)
    return path


@pytest.mark.parametrize(
    ("text", "provider", "model", "address", "key"),
    [
        ("openai:gpt-5", "openai", "gpt-5", "https://api.openai.com/v1", "OPENAI_API_KEY"),
        ("anthropic:claude-x", "anthropic", "claude-x", "https://api.anthropic.com", "ANTHROPIC_API_KEY"),
        ("google:gemini-x", "google", "gemini-x", "https://generativelanguage.googleapis.com", "GEMINI_API_KEY"),
        ("openrouter:qwen/qwen3:free", "openrouter", "qwen/qwen3:free", "https://openrouter.ai/api/v1", None),
        ("ollama:qwen3:8b", "ollama", "qwen3:8b", "http://127.0.0.1:11434/v1", None),
        ("http://127.0.0.1:8000/v1#a/b", "compatible", "a/b", "http://127.0.0.1:8000/v1", None),
    ],
)
def test_a_model_is_named_in_one_word(text: str, provider: str, model: str, address: str, key: str | None) -> None:
    member = parse_member(text)
    assert (member.provider, member.model, member.name, member.address) == (provider, model, model, address)
    if provider != "openrouter":
        assert member.key_name == key


def test_a_file_says_all_of_it(file: Path) -> None:
    config = read_config(file, [])
    assert [member.name for member in config.members] == ["thinker", "coder"]
    assert config.evaluation_usd == 0.01
    assert config.members[0].reasoning == "high"
    assert config.members[1].base_url == "http://127.0.0.1:8000/v1"


def test_words_choose_from_the_file_and_add_to_it(file: Path) -> None:
    config = read_config(file, ["coder", "ollama:qwen3"])
    assert [member.name for member in config.members] == ["coder", "qwen3"]
    assert config.evaluation_usd == 0.01


@pytest.mark.parametrize(
    ("models", "told"),
    [
        ([], "no model is named"),
        (["gpt-5"], "is not a model"),
        (["nobody:x"], "is not a provider"),
        (["http://127.0.0.1:1/v1"], "#MODEL"),
        (["http://me:secret@127.0.0.1/v1#m"], "must not hold a key"),
        (["http://127.0.0.1/v1?key=secret#m"], "must not hold a key"),
        (["ollama:a", "ollama:a"], "two members are called 'a'"),
    ],
)
def test_wrong_words_get_one_line(models: list[str], told: str) -> None:
    with pytest.raises(EnsembleError) as error:
        read_config(None, models)
    assert told in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("members = [", "is not TOML"),
        ("", "members: Field required"),
        ('[[members]]\nprovider="openai"\nmodel="m"\napi_key="sk-1"', "members.0.api_key: Extra inputs"),
        ('[[members]]\nprovider="compatible"\nmodel="m"', "needs its base_url"),
        ('[[members]]\nprovider="openai"\nmodel="m"\ntimeout=0', "members.0.timeout"),
        ('[[members]]\nprovider="openai"\nmodel="m"\nprice={input=inf,output=1}', "members.0.price.input"),
        ('[[members]]\nprovider="openai"\nmodel="m"\nprice={input=1,output=nan}', "members.0.price.output"),
        ('[[members]]\nprovider="openai"\nmodel="m"\nweight=inf', "members.0.weight"),
        ('evaluation_usd=inf\n[[members]]\nprovider="openai"\nmodel="m"', "evaluation_usd"),
    ],
)
def test_a_wrong_file_gets_one_line_that_names_it(tmp_path: Path, text: str, told: str) -> None:
    path = tmp_path / "wrong.toml"
    path.write_text(text)
    with pytest.raises(EnsembleError) as error:
        read_config(path, [])
    assert str(error.value).startswith(f"{path}: ")
    assert told in str(error.value)
    assert "sk-1" not in str(error.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(EnsembleError, match=r"no\.toml: No such file"):
        read_config(tmp_path / "no.toml", [])


def test_a_missing_key_gets_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(EnsembleError, match="OPENAI_API_KEY is not set: gpt-5 needs it"):
        parse_member("openai:gpt-5").key()


def test_a_providers_key_goes_nowhere_else() -> None:
    elsewhere = Member(provider="openai", model="m", base_url="http://example.org/v1")
    assert elsewhere.key_name is None
    assert Member(provider="openai", model="m", base_url="http://example.org/v1", key_env="MINE").key_name == "MINE"


@pytest.mark.parametrize(
    ("address", "local"),
    [
        ("http://127.0.0.1:1/v1", True),
        ("http://[::1]:1/v1", True),
        ("http://localhost/v1", True),
        ("http://127.0.0.1.example.org/v1", False),
        ("http://10.0.0.1/v1", False),
    ],
)
def test_only_loopback_is_local(address: str, local: bool) -> None:
    assert Member(provider="compatible", model="m", base_url=address).local is local
