"""One call: attempts with back-off between them, paced, one further attempt for an answer of the wrong type, all of it
counted.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from pydantic import BaseModel

from kernelwright.llm.attempts import (
    AttemptRequest,
    AttemptResult,
    Transport,
    Turn,
    UnusableAnswer,
    correction,
    parse_typed,
)
from kernelwright.llm.config import Member
from kernelwright.llm.ledger import BudgetLedger, cost, upper_tokens
from kernelwright.llm.model import (
    CallFailed,
    CallRecord,
    FailureKind,
    Match,
    ModelCall,
    ModelReply,
    RecordingFailed,
    Usage,
)

MINUTE = 60.0


class RateLimiter:
    """`sleep` says whether waiting is over for good, as `Event.wait` does."""

    def __init__(
        self,
        concurrency: int,
        per_minute: float | None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], bool] | None = None,
    ) -> None:
        self._places = threading.BoundedSemaphore(concurrency)
        self._interval = 0.0 if per_minute is None else MINUTE / per_minute
        self._clock = clock
        self._sleep = sleep or threading.Event().wait
        self._lock = threading.Lock()
        self._next = clock()

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Waits for a place and for the time of a request, and holds the place."""
        with self._places:
            while (wait := self._booked()) > 0 and not self._sleep(wait):
                pass
            yield

    def pause(self, seconds: float) -> None:
        """No request begins for so long: a provider that limits one request limits all."""
        with self._lock:
            self._next = max(self._next, self._clock() + seconds)

    def _booked(self) -> float:
        """Takes the next time, if it has come; else how long until then. A pause may come meanwhile."""
        with self._lock:
            now = self._clock()
            if now < self._next:
                return self._next - now
            self._next = now + self._interval
            return 0.0


FIRST_WAIT, LONGEST_WAIT = 1.0, 60.0
RECORDED_DETAIL = 500


def request_for(
    member: Member, ask: ModelCall, turns: tuple[Turn, ...] | None = None, attempt: int = 0
) -> AttemptRequest:
    return AttemptRequest(
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


def upper_usd(member: Member, request: AttemptRequest) -> float | None:
    return cost(member, upper_tokens(request)).usd


@dataclass(frozen=True)
class ModelCaller:
    """`keep_pauses`: whether to wait between attempts. A replay does not."""

    transport: Transport
    ledger: BudgetLedger
    paces: Mapping[str, RateLimiter]
    keep_pauses: bool = True
    sleep: Callable[[float], object] = time.sleep
    clock: Callable[[], float] = time.monotonic

    def call(self, member: Member, ask: ModelCall) -> ModelReply:
        """The answer. CallFailed says why there is none, with what was spent on it.

        NotKept ends the call at the attempt whose recording could not be written, as far as it has come.
        """
        account = _CallAccount(member, ask, self.clock(), self.clock)
        turns: tuple[Turn, ...] | None = None
        retries, asked_again = 0, False
        while True:
            request = request_for(member, ask, turns, account.attempts)
            result = self._attempt(member, request)
            if result.failure != FailureKind.over_budget:
                account.add(request, result)
            if result.not_kept:
                raise RecordingFailed(result.not_kept, account.called(result.failure or "ok", result.detail))
            if result.failure is None:
                try:
                    return ModelReply(result.text, _value(ask, result.text), account.called("ok", ""))
                except UnusableAnswer as wrong:
                    if asked_again:
                        raise account.failed(FailureKind.malformed, str(wrong)) from None
                    asked_again = True
                    turns = (
                        *request.turns,
                        Turn(role="assistant", text=result.text),
                        Turn(role="user", text=correction(str(wrong))),
                    )
                    continue
            retries += 1
            wait = self._wait(member, ask, result, retries)
            if wait is None:
                raise account.failed(result.failure, result.detail)
            if self.keep_pauses:
                self.sleep(wait)

    def _attempt(self, member: Member, request: AttemptRequest) -> AttemptResult:
        most = upper_usd(member, request) or 0.0
        with self.paces[member.name].turn(), self.ledger.reserve(most) as reservation:
            if reservation is None:
                detail = f"may cost ${most:.4f}, and ${self.ledger.left:.4f} of ${self.ledger.limit:g} is left"
                return AttemptResult(failure=FailureKind.over_budget, detail=detail)
            reservation.spent = most  # should this be interrupted
            result = self.transport.send(member, request)
            reservation.spent = result.usd or 0.0
            if self.keep_pauses and result.retry_after is not None:
                self.paces[member.name].pause(min(result.retry_after, member.max_wait))
            return result

    def _wait(self, member: Member, ask: ModelCall, result: AttemptResult, retries: int) -> float | None:
        """Seconds until the next attempt; None when there is to be none.

        The jitter comes from the seed: different for calls that fail together, and the same when one is repeated.
        """
        if not result.again or retries >= member.attempts:
            return None
        most = min(LONGEST_WAIT, FIRST_WAIT * 2.0 ** (retries - 1))
        wait = most * random.Random(f"{ask.seed} {ask.prompt.sha256} {retries}").uniform(0.5, 1.0)
        if result.retry_after is None:
            return wait
        return None if result.retry_after > member.max_wait else result.retry_after + 0.1 * wait


@dataclass
class _CallAccount:
    """Adds up the attempts of one call."""

    member: Member
    ask: ModelCall
    began: float
    clock: Callable[[], float]
    attempts: int = 0
    usage: Usage = field(default_factory=Usage)
    usd: float | None = 0.0
    prices: str = ""
    recording: str = ""
    match: Match | None = None
    recorded_usd: float | None = None

    def add(self, request: AttemptRequest, result: AttemptResult) -> None:
        self.attempts += 1
        self.usage += result.usage
        self.usd = None if self.usd is None or result.usd is None else self.usd + result.usd
        self.prices = result.prices or self.prices
        self.recording = result.recording or request.key
        self.match = result.match
        if result.recorded_usd is not None:
            self.recorded_usd = (self.recorded_usd or 0.0) + result.recorded_usd

    def called(self, outcome: str, detail: str) -> CallRecord:
        return CallRecord(
            stage=self.ask.stage,
            member=self.member.name,
            model=self.member.model,
            seconds=self.clock() - self.began,
            attempts=self.attempts,
            usage=self.usage,
            usd=self.usd,
            prices=self.prices,
            outcome="ok" if outcome == "ok" else FailureKind(outcome),
            detail=" ".join(detail.split())[:RECORDED_DETAIL],
            prompt_sha256=self.ask.prompt.sha256,
            recording=self.recording,
            match=self.match,
            recorded_usd=self.recorded_usd,
        )

    def failed(self, kind: FailureKind, detail: str) -> CallFailed:
        called = self.called(kind, detail)
        return CallFailed(kind, f"{self.member.name}: {kind.replace('_', ' ')}: {called.detail}", called)


def _value(ask: ModelCall, text: str) -> BaseModel | None:
    return None if ask.answer is None else parse_typed(ask.answer, text)
