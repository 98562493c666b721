"""What a call costs: from the member's own price, or from the table of `genai-prices`, whose version is kept.

An estimate is an upper end. Without the model's tokenizer a byte is taken for a token, since no token is shorter, and
an answer for as long as it may be. So a budget that an estimate fits cannot be overshot.
"""

from __future__ import annotations

from dataclasses import dataclass

from kernelwright.llm.config import Member, Price
from kernelwright.llm.model import Usage
from kernelwright.llm.wire import Request

FRAME_TOKENS = 32  # around each message
MILLION = 1e6


@dataclass(frozen=True)
class Cost:
    """`usd` is None where nobody knows the price. `source` says whose price it is."""

    usd: float | None
    source: str


def cost(member: Member, usage: Usage) -> Cost:
    """Never less than nothing: where a provider's counts contradict each other, the larger reading is paid for."""
    usage = usage.whole
    if member.price is not None:
        return Cost(_by_hand(member.price, usage), "config")
    if member.local:
        return Cost(0.0, "local")
    return _by_table(member, usage)


def upper_tokens(request: Request) -> Usage:
    """The most tokens that one attempt can use."""
    texts = [request.system, *(turn.text for turn in request.turns), request.schema_text]
    size = sum(len(text.encode()) for text in texts)
    return Usage(size + FRAME_TOKENS * len(texts), request.max_output_tokens)


def _by_hand(price: Price, usage: Usage) -> float:
    cached = price.input if price.cached is None else price.cached
    fresh = usage.input_tokens - usage.cached_tokens
    return (fresh * price.input + usage.cached_tokens * cached + usage.output_tokens * price.output) / MILLION


def _by_table(member: Member, usage: Usage) -> Cost:
    try:
        import genai_prices
    except ImportError:  # a replay needs no table
        return Cost(None, "")
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
        return Cost(None, "")
    return Cost(float(found.total_price), f"genai-prices {genai_prices.__version__}")
