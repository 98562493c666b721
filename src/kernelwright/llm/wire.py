"""What one attempt at a call sends and what it brings: values that a recording keeps, whoever carries them."""

from __future__ import annotations

import hashlib
import json
from typing import Any, Literal, Protocol

from pydantic import BaseModel, ConfigDict, Field, field_validator

from kernelwright.llm.config import Effort, Member
from kernelwright.llm.model import Dollars, FailureKind, Match, Usage


class _Value(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Turn(_Value):
    role: Literal["user", "assistant"]
    text: str


class Request(_Value):
    """All that an answer depends on. Where the server is does not belong here, nor does a key."""

    provider: str
    model: str
    temperature: float | None
    reasoning: Effort | None
    max_output_tokens: int
    system: str
    turns: tuple[Turn, ...]
    answer_schema: dict[str, Any] | None  # of a typed answer
    typed: Literal["native", "prompted"] | None
    seed: int
    attempt: int  # from 0, over retries and the one further ask: the same request may fare differently
    stage: str = Field(default="", exclude=True)  # of the ask, for whoever keeps it; nobody is told

    @property
    def key(self) -> str:
        content = json.dumps(self.model_dump(mode="json"), sort_keys=True, ensure_ascii=True)
        return hashlib.sha256(content.encode()).hexdigest()[:32]

    @property
    def schema_text(self) -> str:
        return "" if self.answer_schema is None else json.dumps(self.answer_schema)


class Brought(_Value):
    """An answer, or why there is none."""

    text: str = ""
    failure: FailureKind | None = None
    detail: str = ""
    again: bool = False  # whether the same request may fare better later
    retry_after: float | None = None  # seconds, as the provider asks
    usage: Usage = Field(default_factory=Usage)
    usd: Dollars = 0.0  # None: the price is unknown
    prices: str = ""  # whose price it is
    model: str = ""  # as the provider names it
    recording: str = Field(default="", exclude=True)  # what a replay took it from, and how that was found
    match: Match | None = Field(default=None, exclude=True)
    recorded_usd: Dollars = Field(default=None, exclude=True)  # what it cost when it was recorded
    not_kept: str = Field(default="", exclude=True)  # why there is no recording of it, where one is wanted

    @field_validator("text", "detail", mode="after")
    @classmethod
    def _whole_characters(cls, said: str) -> str:
        """JSON may bring half of a surrogate pair, which no file and no journal could keep."""
        return said.encode("utf-8", "replace").decode("utf-8")


class Transport(Protocol):
    """Carries one attempt, once, and never raises for what the other side does."""

    def send(self, member: Member, request: Request) -> Brought: ...

    def close(self) -> None: ...
