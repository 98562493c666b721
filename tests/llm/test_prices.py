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
