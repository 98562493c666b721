"""Typed answers of models that diagnose and verify. Opinions: nothing is accepted or rejected because of them."""

from __future__ import annotations

from typing import Literal, Protocol

from pydantic import BaseModel, ConfigDict, Field

from kernelwright.judge.words import shortened
from kernelwright.llm.model import CallFailed, Estimate, ModelCall, ModelReply

LENGTH = 1000
Members = tuple[str, ...]


class _Opinion(BaseModel):
    """What a model adds beyond the fields is dropped, and long texts are cut: an opinion is read, not obeyed."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class ErrorDiagnosis(_Opinion):
    issue: str
    where: str = ""
    cause: str = ""
    fix: str

    @property
    def text(self) -> str:
        return _lines(("Issue", self.issue), ("Where", self.where), ("Cause", self.cause), ("Fix", self.fix))


class BottleneckDiagnosis(_Opinion):
    limit: Literal["launching", "moving", "computing", "waiting"]
    evidence: str = ""
    change: str
    expected: str = ""

    @property
    def text(self) -> str:
        return _lines(
            ("Limited by", self.limit),
            ("Evidence", self.evidence),
            ("Change", self.change),
            ("Expected", self.expected),
        )


class Review(_Opinion):
    passes: bool
    confidence: float = Field(default=0.5, ge=0, le=1)
    line: str = ""
    reason: str = ""


class Models(Protocol):
    """What the pipeline needs of an ensemble; `kernelwright.llm.ensemble` is one, and tests have another."""

    def ask_all(self, asks: list[ModelCall]) -> list[ModelReply | CallFailed]: ...

    def estimate(self, asks: list[ModelCall]) -> Estimate: ...


def _lines(*parts: tuple[str, str]) -> str:
    return "\n".join(f"- {name}: {shortened(text, LENGTH)}" for name, text in parts if text.strip())
