"""Prices, upper bounds, and a ledger that calls in flight cannot overshoot together."""

from __future__ import annotations

import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import genai_prices
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernelwright.llm.calling import request_for
from kernelwright.llm.config import Member, Price, parse_member
from kernelwright.llm.ledger import BudgetLedger, CallCost, cost, upper_tokens
from kernelwright.llm.model import ModelCall, Prompt, Usage

MILLION = Usage(1_000_000, 1_000_000)


def test_the_table_says_whose_price_it_is() -> None:
    found = cost(parse_member("openai:gpt-4o"), MILLION)
    assert found == CallCost(pytest.approx(12.5), f"genai-prices {genai_prices.__version__}")


def test_cached_input_costs_less() -> None:
    member = parse_member("openai:gpt-4o")
    assert cost(member, Usage(1000, 0, 800)).usd < cost(member, Usage(1000, 0)).usd  # type: ignore[operator]


def test_ones_own_price_comes_first() -> None:
    member = Member(provider="openai", model="gpt-4o", price=Price(input=1, output=2, cached=0.5))
    assert cost(member, Usage(1_000_000, 1_000_000, 500_000)) == CallCost(0.5 + 0.25 + 2, "config")


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
    assert cost(parse_member("ollama:qwen3"), MILLION) == CallCost(0.0, "local")
    assert cost(parse_member("openai:no-such-model"), MILLION) == CallCost(None, "")
    assert cost(parse_member("http://example.org/v1#m"), MILLION) == CallCost(None, "")


@given(st.text(), st.text())
def test_no_tokenizer_needs_more_than_the_upper_end(system: str, user: str) -> None:
    """A token is at least a byte, whatever the tokenizer."""
    member = Member(provider="ollama", model="m", max_output_tokens=77)
    tokens = upper_tokens(request_for(member, ModelCall("evolve", Prompt(system, user), 0)))
    assert tokens.input_tokens > len(system.encode()) + len(user.encode())
    assert tokens.output_tokens == 77


def test_what_was_spent_is_counted_and_what_was_held_comes_back() -> None:
    ledger = BudgetLedger(1.0, spent=0.25)
    with ledger.reserve(0.75) as hold:
        assert hold is not None
        hold.spent = 0.5
    assert ledger.spent == 0.75
    with ledger.reserve(0.26) as hold:
        assert hold is None
    assert ledger.left == 0.25


def test_a_journal_that_says_less_than_nothing_leaves_no_more_than_the_limit() -> None:
    assert BudgetLedger(1.0, spent=-5.0).left == 1.0


def test_without_a_limit_it_only_counts() -> None:
    ledger = BudgetLedger(None)
    with ledger.reserve(1e9) as hold:
        assert hold is not None
        hold.spent = 3.0
    assert ledger.spent == 3.0


def test_a_call_waits_for_others_that_may_give_back() -> None:
    ledger = BudgetLedger(1.0)
    entered = threading.Event()

    def second() -> bool:
        entered.set()
        with ledger.reserve(0.9) as hold:
            return hold is not None

    with ThreadPoolExecutor(1) as pool:
        with ledger.reserve(0.9) as hold:
            waiting = pool.submit(second)
            entered.wait()
            time.sleep(0.02)
            assert not waiting.done()
            assert hold is not None
            hold.spent = 0.1
        assert waiting.result(5)


def test_many_at_once_never_overshoot() -> None:
    """Whatever they spend of what they hold, in whatever order."""
    ledger = BudgetLedger(1.0)
    chance = random.Random(1)
    parts = [(most, most * chance.random()) for most in (chance.uniform(0.01, 0.2) for _ in range(200))]

    def spend(part: tuple[float, float]) -> float:
        most, actual = part
        with ledger.reserve(most) as hold:
            if hold is None:
                return 0.0
            assert ledger.spent <= 1.0
            time.sleep(0.0005)
            hold.spent = actual
            return actual

    with ThreadPoolExecutor(16) as pool:
        spent = list(pool.map(spend, parts))
    assert abs(sum(spent) - ledger.spent) < 1e-9
    assert 0.7 < ledger.spent <= 1.0
