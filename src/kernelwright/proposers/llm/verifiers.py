"""Verifiers: models that look at a candidate before it is measured. They rank, and filter where they agree.

They and the models that diagnose give typed answers. A verifier never accepts: what passes is judged like anything
else, and what is held back is only not measured now.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from pydantic import BaseModel, ConfigDict, Field

from kernelwright.contracts import Candidate
from kernelwright.judge.wording import shortened
from kernelwright.llm.model import CallFailed, Estimate, ModelCall, ModelReply
from kernelwright.proposers.llm.context import PromptContext
from kernelwright.proposers.llm.prompts import render
from kernelwright.proposers.llm.shown import shown_source
from kernelwright.proposers.llm.view import PromptStage

OPINION_LENGTH = 1000
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
    return "\n".join(f"- {name}: {shortened(text, OPINION_LENGTH)}" for name, text in parts if text.strip())


VOTES = 3
REASON_LENGTH = 300


@dataclass(frozen=True)
class Opinion:
    """A majority of `votes`. Without votes, where no model answered, there is no objection."""

    stage: PromptStage
    votes: int
    against: int
    confidence: float  # of those against, on average
    reason: str

    @property
    def objects(self) -> bool:
        return self.against * 2 > self.votes


@dataclass(frozen=True)
class Panel:
    """Each verifier asks `votes` members in turn, so that different models look at the same candidate."""

    models: Models
    members: Members
    context: PromptContext
    votes: int = VOTES

    def opinions(
        self, candidates: Sequence[Candidate], stages: Sequence[PromptStage], seed: int
    ) -> list[list[Opinion]]:
        """For each candidate, one opinion of each verifier. All of them are asked at once."""
        asks = [ask for candidate in candidates for ask in self.asks(candidate, stages, seed)]
        replies = iter(self.models.ask_all(asks))
        found = []
        for _ in candidates:
            row = []
            for stage in stages:
                answers = [next(replies) for _ in range(self.votes)]
                row.append(majority(stage, [_review(answer) for answer in answers]))
            found.append(row)
        return found

    def asks(self, candidate: Candidate, stages: Sequence[PromptStage], seed: int) -> list[ModelCall]:
        found = []
        for stage in stages:
            prompt = render(self.context.about(stage, shown_source(candidate)))
            for vote in range(self.votes):
                member = self.members[vote % len(self.members)] if self.members else None
                own = derived_seed(seed, f"{stage} {candidate.id} {vote}")
                found.append(ModelCall(stage.value, prompt, own, member=member, answer=Review))
        return found


def majority(stage: PromptStage, reviews: Sequence[Review | None]) -> Opinion:
    """More than half of those who answered; a member that did not answer has no vote."""
    cast = [review for review in reviews if review is not None]
    against = [review for review in cast if not review.passes]
    confidence = sum(review.confidence for review in against) / len(against) if against else 0.0
    reason = shortened(max(against, key=lambda review: review.confidence).reason, REASON_LENGTH) if against else ""
    return Opinion(stage, len(cast), len(against), confidence, reason)


def ranked(opinions: Sequence[Sequence[Opinion]], count: int) -> tuple[list[int], dict[int, str]]:
    """Which `count` of the candidates are measured, best first, and why the others are not.

    Those that a majority objects to come last. They are measured all the same where there is room, since a
    verifier that is wrong must not stop a good kernel for good.
    """

    def doubt(index: int) -> tuple[int, float, int]:
        objecting = [one for one in opinions[index] if one.objects]
        return (len(objecting), sum(one.confidence for one in objecting), index)

    order = sorted(range(len(opinions)), key=doubt)
    left = {}
    for index in order[count:]:
        objecting = [f"{one.stage}: {one.reason}" for one in opinions[index] if one.objects]
        left[index] = "; ".join(objecting) or "others of its generation seemed as good"
    return order[:count], left


def derived_seed(seed: int, what: str) -> int:
    """A seed of its own for every call of a run."""
    return int.from_bytes(hashlib.sha256(f"{seed} {what}".encode()).digest()[:6], "big")


def _review(answer: object) -> Review | None:
    if isinstance(answer, CallFailed):
        return None
    value = getattr(answer, "value", None)
    return value if isinstance(value, Review) else None
