"""What one attempt at a call sends and what it brings back, and how a typed answer is asked for and read.

These are values that a recording keeps, whichever transport carries them. A model's text is hostile and only ever data.
"""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any, Literal, Protocol

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from kernelwright.llm.config import Effort, Member
from kernelwright.llm.model import Dollars, FailureKind, Match, Usage


class _Value(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Turn(_Value):
    role: Literal["user", "assistant"]
    text: str


class AttemptRequest(_Value):
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
    attempt: int  # from 0, over retries and the one correction: the same request may have another result
    stage: str = Field(default="", exclude=True)  # of the call, for recordings; it is not sent

    @property
    def key(self) -> str:
        content = json.dumps(self.model_dump(mode="json"), sort_keys=True, ensure_ascii=True)
        return hashlib.sha256(content.encode()).hexdigest()[:32]

    @property
    def schema_text(self) -> str:
        return "" if self.answer_schema is None else json.dumps(self.answer_schema)


class AttemptResult(_Value):
    """An answer, or why there is none."""

    text: str = ""
    failure: FailureKind | None = None
    detail: str = ""
    again: bool = False  # whether the same request may succeed later
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
    def _whole_characters(cls, text: str) -> str:
        """JSON may bring half of a surrogate pair, which no file and no journal could keep."""
        return text.encode("utf-8", "replace").decode("utf-8")


class Transport(Protocol):
    """Carries one attempt, once, and never raises for what the other side does."""

    def send(self, member: Member, request: AttemptRequest) -> AttemptResult: ...

    def close(self) -> None: ...


_FENCED = re.compile(r"```[a-zA-Z]*\n(.*?)```", re.S)
SHOWN_ERRORS = 5
SHOWN_CHARACTERS = 300


class UnusableAnswer(Exception):  # noqa: N818 - it names an outcome
    """An answer that is not of the wanted type; the text says what is wrong with it."""


def typed_instructions(schema_text: str) -> str:
    """For a model that is not given the schema in any other way."""
    return f"Answer with one JSON object and nothing else. It must match this JSON schema:\n{schema_text}"


def correction(wrong: str) -> str:
    """What a model is told once, when its answer cannot be used."""
    return f"Your answer cannot be used: {wrong}\nAnswer again, with one JSON object that matches and nothing else."


def parse_typed(wanted: type[BaseModel], text: str) -> BaseModel:
    """The object in the text, also between lines of ``` or among words, as models write it."""
    error: ValidationError | None = None
    for candidate in _candidates(text):
        try:
            return wanted.model_validate_json(candidate)
        except ValidationError as found:
            error = error if error is not None and _is_json(error) else found
    assert error is not None  # there is always one candidate
    raise UnusableAnswer(_in_words(error))


def _candidates(text: str) -> list[str]:
    found = [text.strip(), *(match[1] for match in _FENCED.finditer(text))]
    first, last = text.find("{"), text.rfind("}")
    if 0 <= first < last:
        found.append(text[first : last + 1])
    return list(dict.fromkeys(found))


def _is_json(error: ValidationError) -> bool:
    return all(one["type"] != "json_invalid" for one in error.errors(include_url=False))


def _in_words(error: ValidationError) -> str:
    lines = []
    for one in error.errors(include_input=False, include_url=False)[:SHOWN_ERRORS]:
        place = ".".join(str(part) for part in one["loc"])
        lines.append(f"{place}: {one['msg']}" if place else one["msg"])
    return "; ".join(line[:SHOWN_CHARACTERS] for line in lines)
