"""What calls cost, and the ledger that keeps them within a budget.

A price is the member's own, or comes from the table of `genai-prices`, whose version is kept. An estimate is an upper
bound: without the model's tokenizer a byte is taken for a token, since no token is shorter, and an answer for as long
as it may be. Money is reserved before a call, so that calls in flight cannot overshoot the budget together.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from kernelwright.llm.attempts import AttemptRequest
from kernelwright.llm.config import Member, Price
from kernelwright.llm.model import Usage

FRAME_TOKENS = 32  # around each message
MILLION = 1e6


@dataclass(frozen=True)
class CallCost:
    """`usd` is None where the price is unknown. `source` says whose price it is."""

    usd: float | None
    source: str


def cost(member: Member, usage: Usage) -> CallCost:
    """Never negative: where a provider's counts contradict each other, the larger reading is paid for."""
    usage = usage.whole
    if member.price is not None:
        return CallCost(_by_hand(member.price, usage), "config")
    if member.local:
        return CallCost(0.0, "local")
    return _by_table(member, usage)


def upper_tokens(request: AttemptRequest) -> Usage:
    """The most tokens that one attempt can use."""
    texts = [request.system, *(turn.text for turn in request.turns), request.schema_text]
    size = sum(len(text.encode()) for text in texts)
    return Usage(size + FRAME_TOKENS * len(texts), request.max_output_tokens)


def _by_hand(price: Price, usage: Usage) -> float:
    cached = price.input if price.cached is None else price.cached
    fresh = usage.input_tokens - usage.cached_tokens
    return (fresh * price.input + usage.cached_tokens * cached + usage.output_tokens * price.output) / MILLION


def _by_table(member: Member, usage: Usage) -> CallCost:
    try:
        import genai_prices
    except ImportError:  # a replay needs no table
        return CallCost(None, "")
    counted = genai_prices.Usage(
        input_tokens=usage.input_tokens, output_tokens=usage.output_tokens, cache_read_tokens=usage.cached_tokens
    )
    try:
        if member.base_url is None:
            provider = member.provider.removesuffix("-chat")
            found = genai_prices.calc_price(counted, member.model, provider_id=provider)
        else:
            found = genai_prices.calc_price(counted, member.model, provider_api_url=member.base_url)
    except LookupError:
        return CallCost(None, "")
    return CallCost(float(found.total_price), f"genai-prices {genai_prices.__version__}")


class BudgetLedger:
    """`limit` None: without limit; what is spent is still counted."""

    def __init__(self, limit: float | None, spent: float = 0.0) -> None:
        self.limit = limit
        self._spent = max(0.0, spent)
        self._reserved = 0.0
        self._changed = threading.Condition()

    @property
    def spent(self) -> float:
        with self._changed:
            return self._spent

    @property
    def left(self) -> float:
        return math.inf if self.limit is None else max(0.0, self.limit - self.spent)

    @contextmanager
    def reserve(self, most: float) -> Iterator[Reservation | None]:
        """Holds `most` until the block ends; None when the budget does not suffice, even after all others are done.

        It waits for others, because they mostly spend a small part of their reservations.
        """
        with self._changed:
            self._changed.wait_for(lambda: not self._fits(most) or self._fits(most + self._reserved))
            if not self._fits(most):
                reservation = None
            else:
                reservation = Reservation()
                self._reserved += most
        try:
            yield reservation
        finally:
            if reservation is not None:
                with self._changed:
                    self._reserved -= most
                    self._spent += reservation.spent
                    self._changed.notify_all()

    def _fits(self, amount: float) -> bool:
        return self.limit is None or self._spent + amount <= self.limit * (1 + 1e-9)


class Reservation:
    """What one call reserved, and what it reports to have spent."""

    def __init__(self) -> None:
        self.spent = 0.0
