"""A model that is played: it reads a prompt about the toy problem and answers as models do. And an ensemble of such."""

from __future__ import annotations

import json
import random
import re
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from kernelwright.contracts import Candidate
from kernelwright.llm.config import Member
from kernelwright.llm.model import (
    CallFailed,
    CallRecord,
    Estimate,
    FailureKind,
    MemberEstimate,
    ModelCall,
    ModelReply,
    Usage,
)
from kernelwright.proposers.llm.checks import CheckFault
from kernelwright.proposers.llm.proposer import LlmProposer, ProposerTools
from kernelwright.proposers.llm.verifiers import Models
from kernelwright.proposers.llm.view import PromptStage
from kernelwright.proposers.model import Once
from tests.proposers.llm import samples
from tests.search import toy

USE = re.compile(r"use\(([\d, ]+)\)")
PASSES = {"passes": True, "confidence": 0.9, "line": "", "reason": "nothing found"}
FAILS = {"passes": False, "confidence": 0.8, "line": "static int kept;", "reason": "it keeps results"}


def act(prompt: str, seed: int) -> str:
    """A mutation of the last kernel in the prompt, whole or as an edit; an opinion where one is asked for."""
    if "`passes`" in prompt:
        return json.dumps(FAILS if "static int kept" in prompt else PASSES)
    if "`issue`" in prompt:
        return json.dumps({"issue": "a sum is wrong", "where": "kernel", "cause": "genes", "fix": "change one"})
    if "one of launching" in prompt:
        return json.dumps({"limit": "moving", "evidence": "the times", "change": "change one", "expected": "less"})
    draw = random.Random(seed)
    found = USE.findall(prompt)
    if not found:
        return answer(tuple(draw.randrange(toy.LEVELS) for _ in range(toy.GENES)))
    genes = tuple(int(gene) for gene in found[-1].split(","))
    new = toy._mutated(genes, draw)
    if "<<<<<<< SEARCH" not in prompt:
        return answer(new)
    old, text = (f"use({', '.join(map(str, each))})" for each in (genes, new))
    return f"Idea: one change\n<<<<<<< SEARCH\n{old}\n=======\n{text}\n>>>>>>> REPLACE\n"


def answer(genes: toy.Genes, extra: str = "") -> str:
    return f"Idea: genes {genes[0]}\n```cpp\n{extra}{toy.source_of(genes)}```\n"


def builds(candidate: Candidate) -> CheckFault | None:
    """In the place of a compiler."""
    if "use(" not in candidate.source:
        return CheckFault("it does not build", ("kernel.cpp:1: error: nothing is used",))
    return None


Script = Callable[[ModelCall], str | FailureKind]


@dataclass
class Played:
    """In the place of an ensemble. `usd` is what a call costs; `limit` what may be spent."""

    script: Script = lambda ask: act(ask.prompt.user, ask.seed)
    names: tuple[str, ...] = ("one", "two")
    usd: float = 0.01
    limit: float | None = None
    spent: float = 0.0
    on_called: Callable[[CallRecord], None] | None = None
    asked: list[ModelCall] = field(default_factory=list)
    rewards: list[tuple[str, float, float]] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def members(self) -> tuple[Member, ...]:
        return tuple(Member(name=name, provider="ollama", model=name) for name in self.names)

    def ask_all(self, asks: Sequence[ModelCall]) -> list[ModelReply | CallFailed]:
        return [self._ask(ask) for ask in asks]

    def reward(self, member: str, gain: float, usd: float) -> None:
        self.rewards.append((member, gain, usd))

    def estimate(self, asks: Sequence[ModelCall]) -> Estimate:
        return Estimate({"one": MemberEstimate(len(asks), 1000, 100, self.usd * len(asks))})

    def _ask(self, ask: ModelCall) -> ModelReply | CallFailed:
        member = ask.member or self.names[ask.seed % len(self.names)]
        over = self.limit is not None and self.spent + self.usd > self.limit
        said = FailureKind.over_budget if over else self.script(ask)
        self.asked.append(ask)
        failed = isinstance(said, FailureKind)
        called = CallRecord(
            stage=ask.stage,
            member=member,
            model=member,
            seconds=0.0,
            attempts=0 if over else 1,
            usage=Usage() if over else Usage(1000, 100),
            usd=0.0 if over else self.usd,
            prices="config",
            outcome=said if failed else "ok",
            detail="played" if failed else "",
            prompt_sha256=ask.prompt.sha256,
            recording="",
        )
        self.spent += called.usd or 0.0
        if self.on_called is not None:
            self.on_called(called)
        if isinstance(said, FailureKind):
            return CallFailed(said, f"{member}: {said.value}", called)
        value = ask.answer.model_validate_json(said) if ask.answer is not None else None
        return ModelReply(said, value, called)


def proposer(models: Models, generation: int = 8, names: tuple[str, ...] = ("one", "two")) -> LlmProposer:
    tools = Once(lambda: ProposerTools(samples.ground(), (builds,)))
    verifiers = (PromptStage.verify_memory, PromptStage.verify_numerics)
    return LlmProposer(models, names, tools, "cpp", generation, verifiers)
