"""What a language model is asked, what it answers, and what a journal keeps of the call. No client is needed here."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict

from kernelwright.errors import KernelwrightError


@dataclass(frozen=True)
class Prompt:
    system: str
    user: str

    @property
    def sha256(self) -> str:
        """Of both parts, told apart by a byte that no text holds."""
        return hashlib.sha256(f"{self.system}\0{self.user}".encode()).hexdigest()


@dataclass(frozen=True)
class ModelCall:
    """One call of a model that is wanted."""

    stage: str  # translate, evolve, repair, diagnose, verify-numerics, ...
    prompt: Prompt
    seed: int
    member: str | None = None  # None: the bandit chooses
    answer: type[BaseModel] | None = None  # a typed answer is wanted and validated; None: free text


@dataclass(frozen=True)
class Usage:
    """Tokens as the provider counted them. Cached ones are part of the input, reasoning ones part of the output."""

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    reasoning_tokens: int = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cached_tokens + other.cached_tokens,
            self.reasoning_tokens + other.reasoning_tokens,
        )

    @property
    def whole(self) -> Usage:
        """With parts that are none added: some gateways count what was cached or thought apart from the rest."""
        read, written, cached, thought = (
            max(0, count)
            for count in (self.input_tokens, self.output_tokens, self.cached_tokens, self.reasoning_tokens)
        )
        return Usage(
            read + cached if cached > read else read,
            written + thought if thought > written else written,
            cached,
            thought,
        )


def dollars(amount: float | None) -> float | None:
    """A finite amount: a negative one counts as zero, NaN and infinity as unknown."""
    return None if amount is None or not math.isfinite(amount) else max(0.0, amount)


Dollars = Annotated[float | None, AfterValidator(dollars)]


class FailureKind(StrEnum):
    """Why a call brought no answer. `over_budget` and `not_recorded`: nothing was sent."""

    refused = "refused"
    truncated = "truncated"
    malformed = "malformed"
    rate_limited = "rate_limited"
    timed_out = "timed_out"
    unavailable = "unavailable"
    unauthorised = "unauthorised"
    over_budget = "over_budget"
    not_recorded = "not_recorded"


class Match(StrEnum):
    """How a replay found an answer: by the very request, or by less (see `replaying`)."""

    request = "request"
    call = "call"
    material = "material"
    order = "order"


class CallRecord(BaseModel):
    """What a journal keeps of one call, a failed one too: JSON values only, and never a key."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    stage: str
    member: str
    model: str
    seconds: float  # with all attempts and the waits between them
    attempts: int
    usage: Usage  # of all attempts together
    usd: Dollars  # None: the price is unknown; at most, where an attempt was cut off
    prices: str = ""  # whose price it is: the table with its version, the configuration, or local
    outcome: Literal["ok"] | FailureKind
    detail: str = ""
    prompt_sha256: str
    recording: str  # key of the recording of the last attempt; "" when nothing was sent
    match: Match | None = None  # of a replay; None: a model was asked, or nothing was found
    recorded_usd: Dollars = None  # of a replay, which costs nothing: what was paid when it was recorded, if known

    @property
    def ok(self) -> bool:
        return self.outcome == "ok"

    @property
    def price(self) -> float:
        """What such an answer costs, now or when it was recorded; 0 where the price is unknown."""
        return self.usd or self.recorded_usd or 0.0


@dataclass(frozen=True)
class ModelReply:
    text: str
    value: BaseModel | None  # of the type that was asked for
    called: CallRecord


class CallFailed(KernelwrightError):  # noqa: N818 - it names an outcome
    """A call that brought no answer, in one line. A run records it and goes on."""

    def __init__(self, kind: FailureKind, message: str, called: CallRecord | None = None) -> None:
        super().__init__(message)
        self.kind = kind
        self.called = called


class RecordingFailed(KernelwrightError):  # noqa: N818 - it names an outcome
    """A call whose recording could not be written, in one line. It was made and has its price, and ends the run."""

    def __init__(self, message: str, called: CallRecord) -> None:
        super().__init__(message)
        self.called = called


@dataclass(frozen=True)
class MemberEstimate:
    """The upper bound for one member: every answer as long as it may be, without retries."""

    calls: int
    input_tokens: int
    output_tokens: int
    usd: float | None  # None: the price is unknown


@dataclass(frozen=True)
class Estimate:
    """What some calls would cost at most. A call that the bandit places is counted at its dearest member."""

    members: Mapping[str, MemberEstimate] = field(default_factory=dict)

    @property
    def calls(self) -> int:
        return sum(member.calls for member in self.members.values())

    @property
    def input_tokens(self) -> int:
        return sum(member.input_tokens for member in self.members.values())

    @property
    def output_tokens(self) -> int:
        return sum(member.output_tokens for member in self.members.values())

    @property
    def usd(self) -> float | None:
        """None when some member's price is unknown."""
        known = [member.usd for member in self.members.values() if member.usd is not None]
        return sum(known) if len(known) == len(self.members) else None
