"""One call: attempts with back-off between them, one further ask for an answer of the wrong type, all of it counted."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from pydantic import BaseModel

from kernelwright.llm import typed
from kernelwright.llm.config import Member
from kernelwright.llm.model import Ask, Called, CallFailed, FailureKind, Match, NotKept, Reply, Usage
from kernelwright.llm.pacing import Pace
from kernelwright.llm.prices import cost, upper_tokens
from kernelwright.llm.purse import Purse
from kernelwright.llm.wire import Brought, Request, Transport, Turn

FIRST_WAIT, LONGEST_WAIT = 1.0, 60.0
DETAIL_CHARACTERS = 500


def request_for(member: Member, ask: Ask, turns: tuple[Turn, ...] | None = None, attempt: int = 0) -> Request:
    return Request(
        provider=member.provider,
        model=member.model,
        temperature=member.temperature,
        reasoning=member.reasoning,
        max_output_tokens=member.max_output_tokens,
        system=ask.prompt.system,
        turns=turns or (Turn(role="user", text=ask.prompt.user),),
        answer_schema=ask.answer.model_json_schema() if ask.answer else None,
        typed=member.typed if ask.answer else None,
        seed=ask.seed,
        attempt=attempt,
        stage=ask.stage,
    )


def upper_usd(member: Member, request: Request) -> float | None:
    return cost(member, upper_tokens(request)).usd


@dataclass(frozen=True)
class Caller:
    """`patient`: whether pauses are kept. A replay keeps none."""

    transport: Transport
    purse: Purse
    paces: Mapping[str, Pace]
    patient: bool = True
    sleep: Callable[[float], object] = time.sleep
    clock: Callable[[], float] = time.monotonic

    def call(self, member: Member, ask: Ask) -> Reply:
        """The answer. CallFailed says why there is none, with what was spent on it.

        NotKept ends the call at the attempt whose recording could not be written, as far as it has come.
        """
        bill = _Bill(member, ask, self.clock(), self.clock)
        turns: tuple[Turn, ...] | None = None
        retries, asked_again = 0, False
        while True:
            request = request_for(member, ask, turns, bill.attempts)
            brought = self._attempt(member, request)
            if brought.failure != FailureKind.over_budget:
                bill.add(request, brought)
            if brought.not_kept:
                raise NotKept(brought.not_kept, bill.called(brought.failure or "ok", brought.detail))
            if brought.failure is None:
                try:
                    return Reply(brought.text, _value(ask, brought.text), bill.called("ok", ""))
                except typed.Unusable as wrong:
                    if asked_again:
                        raise bill.failed(FailureKind.malformed, str(wrong)) from None
                    asked_again = True
                    turns = (
                        *request.turns,
                        Turn(role="assistant", text=brought.text),
                        Turn(role="user", text=typed.complaint(str(wrong))),
                    )
                    continue
            retries += 1
            wait = self._wait(member, ask, brought, retries)
            if wait is None:
                raise bill.failed(brought.failure, brought.detail)
            if self.patient:
                self.sleep(wait)

    def _attempt(self, member: Member, request: Request) -> Brought:
        most = upper_usd(member, request) or 0.0
        with self.paces[member.name].turn(), self.purse.set_aside(most) as hold:
            if hold is None:
                detail = f"may cost ${most:.4f}, and ${self.purse.left:.4f} of ${self.purse.limit:g} is left"
                return Brought(failure=FailureKind.over_budget, detail=detail)
            hold.spent = most  # should this be interrupted
            brought = self.transport.send(member, request)
            hold.spent = brought.usd or 0.0
            if self.patient and brought.retry_after is not None:
                self.paces[member.name].pause(min(brought.retry_after, member.max_wait))
            return brought

    def _wait(self, member: Member, ask: Ask, brought: Brought, retries: int) -> float | None:
        """Seconds until the next attempt; None when there is to be none.

        The jitter comes from the seed: different for calls that fail together, and the same when one is repeated.
        """
        if not brought.again or retries >= member.attempts:
            return None
        most = min(LONGEST_WAIT, FIRST_WAIT * 2.0 ** (retries - 1))
        wait = most * random.Random(f"{ask.seed} {ask.prompt.sha256} {retries}").uniform(0.5, 1.0)
        if brought.retry_after is None:
            return wait
        return None if brought.retry_after > member.max_wait else brought.retry_after + 0.1 * wait


@dataclass
class _Bill:
    """Adds up the attempts of one call."""

    member: Member
    ask: Ask
    began: float
    clock: Callable[[], float]
    attempts: int = 0
    usage: Usage = field(default_factory=Usage)
    usd: float | None = 0.0
    prices: str = ""
    recording: str = ""
    match: Match | None = None
    recorded_usd: float | None = None

    def add(self, request: Request, brought: Brought) -> None:
        self.attempts += 1
        self.usage += brought.usage
        self.usd = None if self.usd is None or brought.usd is None else self.usd + brought.usd
        self.prices = brought.prices or self.prices
        self.recording = brought.recording or request.key
        self.match = brought.match
        if brought.recorded_usd is not None:
            self.recorded_usd = (self.recorded_usd or 0.0) + brought.recorded_usd

    def called(self, outcome: str, detail: str) -> Called:
        return Called(
            stage=self.ask.stage,
            member=self.member.name,
            model=self.member.model,
            seconds=self.clock() - self.began,
            attempts=self.attempts,
            usage=self.usage,
            usd=self.usd,
            prices=self.prices,
            outcome="ok" if outcome == "ok" else FailureKind(outcome),
            detail=" ".join(detail.split())[:DETAIL_CHARACTERS],
            prompt_sha256=self.ask.prompt.sha256,
            recording=self.recording,
            match=self.match,
            recorded_usd=self.recorded_usd,
        )

    def failed(self, kind: FailureKind, detail: str) -> CallFailed:
        called = self.called(kind, detail)
        return CallFailed(kind, f"{self.member.name}: {kind.replace('_', ' ')}: {called.detail}", called)


def _value(ask: Ask, text: str) -> BaseModel | None:
    return None if ask.answer is None else typed.parse(ask.answer, text)
