"""The configuration of an ensemble: models with limits and prices, from a TOML file or from `provider:model`.

A key never stands here. A member names the environment variable that holds it.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from kernelwright.errors import KernelwrightError

Effort = Literal["minimal", "low", "medium", "high", "xhigh", "max"]
EXAMPLE = "openai:gpt-5, anthropic:claude-sonnet-4-6, ollama:qwen3 or http://127.0.0.1:8000/v1#model"


class EnsembleError(KernelwrightError):
    """An ensemble that cannot be understood or cannot be used: in one line, with the fix."""


@dataclass(frozen=True)
class Provider:
    """Where a provider is and which variable holds its key. Addresses are fixed here, not taken from an SDK's
    own variables, so that the configuration says where a prompt goes."""

    base_url: str | None
    key_env: str | None


PROVIDERS = {
    "openai": Provider("https://api.openai.com/v1", "OPENAI_API_KEY"),
    "openai-chat": Provider("https://api.openai.com/v1", "OPENAI_API_KEY"),
    "anthropic": Provider("https://api.anthropic.com", "ANTHROPIC_API_KEY"),
    "google": Provider("https://generativelanguage.googleapis.com", "GEMINI_API_KEY"),
    "openrouter": Provider("https://openrouter.ai/api/v1", "OPENROUTER_API_KEY"),
    "ollama": Provider("http://127.0.0.1:11434/v1", None),
    "compatible": Provider(None, None),
}


class _Given(BaseModel):
    """What is not finite would be none in a journal, which then could not be read."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Price(_Given):
    """Dollars for a million tokens, in place of the table's."""

    input: float = Field(ge=0)
    output: float = Field(ge=0)
    cached: float | None = Field(default=None, ge=0)  # None: as much as other input


class Member(_Given):
    """One model with its settings. Two members may be one model with different settings."""

    name: str = Field(default="", validate_default=True)
    provider: str
    model: str = Field(min_length=1)
    base_url: str | None = None
    key_env: str | None = None
    temperature: float | None = Field(default=None, ge=0)  # None: the provider's default
    reasoning: Effort | None = None
    max_output_tokens: int = Field(default=16_384, ge=1)  # reasoning included
    typed: Literal["native", "prompted"] | None = None  # how a typed answer is asked for; None: what the model can
    timeout: float = Field(default=600.0, gt=0)  # seconds, for one attempt
    attempts: int = Field(default=4, ge=1)
    max_wait: float = Field(default=120.0, ge=0)  # longest pause that a provider may ask for
    concurrency: int = Field(default=4, ge=1)
    requests_per_minute: float | None = Field(default=None, gt=0)
    price: Price | None = None
    weight: float = Field(default=1.0, gt=0)  # how much it is preferred, whatever is measured

    @field_validator("provider")
    @classmethod
    def _known(cls, provider: str) -> str:
        if provider not in PROVIDERS:
            raise ValueError(f"{provider!r} is not a provider; choose {', '.join(PROVIDERS)}")
        return provider

    @field_validator("base_url")
    @classmethod
    def _an_address(cls, url: str | None) -> str | None:
        if url is None:
            return None
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"{url!r} is not an address; write http://host:port/v1")
        if parts.username or parts.password or parts.query:
            raise ValueError("an address must not hold a key; put it into a variable and name that in key_env")
        return url.rstrip("/")

    @model_validator(mode="after")
    def _complete(self) -> Member:
        if not self.name:
            object.__setattr__(self, "name", self.model)
        if self.provider == "compatible" and self.base_url is None:
            raise ValueError("an OpenAI-compatible server needs its base_url, as in http://127.0.0.1:8000/v1")
        return self

    @property
    def address(self) -> str:
        return self.base_url or PROVIDERS[self.provider].base_url or ""

    @property
    def local(self) -> bool:
        """Whether what is asked stays on this machine."""
        host = urlsplit(self.address).hostname or ""
        if host == "localhost":
            return True
        try:
            return ip_address(host).is_loopback
        except ValueError:
            return False

    @property
    def key_name(self) -> str | None:
        """The variable that holds the key. A provider's own key is sent nowhere but to the provider."""
        return self.key_env or (PROVIDERS[self.provider].key_env if self.base_url is None else None)

    def key(self) -> str | None:
        if self.key_name is None:
            return None
        key = os.environ.get(self.key_name, "").strip()
        if not key:
            raise EnsembleError(f"{self.key_name} is not set: {self.name} needs it; export the key, or leave it out")
        return key


class EnsembleConfig(_Given):
    members: tuple[Member, ...] = Field(min_length=1)
    evaluation_usd: float = Field(default=0.001, gt=0)  # what measuring an answer is held to cost, beside the answer

    @model_validator(mode="after")
    def _told_apart(self) -> EnsembleConfig:
        names = [member.name for member in self.members]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"two members are called {name!r}; give one another name")
        return self

    def member(self, name: str) -> Member:
        for member in self.members:
            if member.name == name:
                return member
        known = ", ".join(member.name for member in self.members)
        raise EnsembleError(f"{name!r} is not a member of the ensemble; choose {known}")


def read_config(path: Path | None, models: Sequence[str]) -> EnsembleConfig:
    """All members of a file; or those that `models` names, in the file or as models of their own."""
    where = "models" if path is None else str(path)
    try:
        config = None if path is None else EnsembleConfig.model_validate(_toml(path))
        if config is None and not models:
            raise EnsembleError(f"no model is named; give one, as in {EXAMPLE}")
        if config is not None and not models:
            return config
        known = {member.name: member for member in config.members} if config else {}
        members = tuple(known.get(text) or parse_member(text) for text in models)
        return EnsembleConfig(members=members, **({"evaluation_usd": config.evaluation_usd} if config else {}))
    except ValidationError as error:
        raise EnsembleError(f"{where}: {_in_words(error)}") from None


def parse_member(text: str) -> Member:
    """`provider:model`, or the address of an OpenAI-compatible server with `#model` behind it."""
    try:
        if text.startswith(("http://", "https://")):
            address, _, model = text.partition("#")
            if not model:
                raise EnsembleError(f"{text}: does not say which model; write {text}#MODEL")
            return Member(provider="compatible", base_url=address, model=model)
        provider, colon, model = text.partition(":")
        if not colon or not model:
            raise EnsembleError(f"{text!r} is not a model; write it as in {EXAMPLE}")
        return Member(provider=provider, model=model)
    except ValidationError as error:
        raise EnsembleError(f"{text}: {_in_words(error)}") from None


def _toml(path: Path) -> dict[str, object]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise EnsembleError(f"{path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise EnsembleError(f"{path}: is not TOML ({error})") from None


def _in_words(error: ValidationError) -> str:
    """The first thing wrong, without the value: it may be a key in the wrong place."""
    first = error.errors(include_input=False, include_url=False)[0]
    place = ".".join(str(part) for part in first["loc"])
    message = first["msg"].removeprefix("Value error, ")
    return f"{place}: {message}" if place else message
