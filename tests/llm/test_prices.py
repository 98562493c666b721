"""What calls cost: the table's price, one's own, none, and the upper end before a call."""

from __future__ import annotations

import genai_prices
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernelwright.llm.calling import request_for
from kernelwright.llm.config import Member, Price, parse_member
from kernelwright.llm.model import Ask, Prompt, Usage
from kernelwright.llm.prices import Cost, cost, upper_tokens

MILLION = Usage(1_000_000, 1_000_000)


def test_the_table_says_whose_price_it_is() -> None:
    found = cost(parse_member("openai:gpt-4o"), MILLION)
    assert found == Cost(pytest.approx(12.5), f"genai-prices {genai_prices.__version__}")


def test_cached_input_costs_less() -> None:
    member = parse_member("openai:gpt-4o")
    assert cost(member, Usage(1000, 0, 800)).usd < cost(member, Usage(1000, 0)).usd  # type: ignore[operator]


def test_ones_own_price_comes_first() -> None:
    member = Member(provider="openai", model="gpt-4o", price=Price(input=1, output=2, cached=0.5))
    assert cost(member, Usage(1_000_000, 1_000_000, 500_000)) == Cost(0.5 + 0.25 + 2, "config")


@pytest.mark.parametrize("cached_price", [None, 0.5])
def test_cached_tokens_that_are_counted_apart_are_paid_for_beside_the_others(cached_price: float | None) -> None:
    """No part is larger than the whole: 100 of 20 tokens were read from a cache means 120."""
    own = Member(provider="openai", model="gpt-4o", price=Price(input=1, output=2, cached=cached_price))
    for member in (own, parse_member("openai:gpt-4o")):
        apart, within = Usage(20_000, 1_000, 100_000), Usage(120_000, 1_000, 100_000)
        assert cost(member, apart) == cost(member, within)
        assert cost(member, Usage(0, 10, 0, 30)) == cost(member, Usage(0, 40, 0, 30))


@given(*[st.integers(-(10**6), 10**6)] * 4)
def test_no_count_of_tokens_earns_money(read: int, written: int, cached: int, thought: int) -> None:
    usage = Usage(read, written, cached, thought)
    for member in (parse_member("openai:gpt-4o"), Member(provider="ollama", model="m", price=Price(input=3, output=5))):
        usd = cost(member, usage).usd
        assert usd is not None and usd >= cost(member, Usage(max(read - max(cached, 0), 0), max(written, 0))).usd >= 0
    assert usage.whole == usage.whole.whole


def test_what_runs_here_is_free_and_what_is_unknown_is_not() -> None:
    assert cost(parse_member("ollama:qwen3"), MILLION) == Cost(0.0, "local")
    assert cost(parse_member("openai:no-such-model"), MILLION) == Cost(None, "")
    assert cost(parse_member("http://example.org/v1#m"), MILLION) == Cost(None, "")


@given(st.text(), st.text())
def test_no_tokenizer_needs_more_than_the_upper_end(system: str, user: str) -> None:
    """A token is at least a byte, whatever the tokenizer."""
    member = Member(provider="ollama", model="m", max_output_tokens=77)
    tokens = upper_tokens(request_for(member, Ask("evolve", Prompt(system, user), 0)))
    assert tokens.input_tokens > len(system.encode()) + len(user.encode())
    assert tokens.output_tokens == 77
