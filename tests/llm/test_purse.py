"""Money is set aside before it is spent."""

from __future__ import annotations

import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor

from kernelwright.llm.purse import Purse


def test_what_was_spent_is_counted_and_what_was_held_comes_back() -> None:
    purse = Purse(1.0, spent=0.25)
    with purse.set_aside(0.75) as hold:
        assert hold is not None
        hold.spent = 0.5
    assert purse.spent == 0.75
    with purse.set_aside(0.26) as hold:
        assert hold is None
    assert purse.left == 0.25


def test_a_journal_that_says_less_than_nothing_leaves_no_more_than_the_limit() -> None:
    assert Purse(1.0, spent=-5.0).left == 1.0


def test_without_a_limit_it_only_counts() -> None:
    purse = Purse(None)
    with purse.set_aside(1e9) as hold:
        assert hold is not None
        hold.spent = 3.0
    assert purse.spent == 3.0


def test_a_call_waits_for_others_that_may_give_back() -> None:
    purse = Purse(1.0)
    entered = threading.Event()

    def second() -> bool:
        entered.set()
        with purse.set_aside(0.9) as hold:
            return hold is not None

    with ThreadPoolExecutor(1) as pool:
        with purse.set_aside(0.9) as hold:
            waiting = pool.submit(second)
            entered.wait()
            time.sleep(0.02)
            assert not waiting.done()
            assert hold is not None
            hold.spent = 0.1
        assert waiting.result(5)


def test_many_at_once_never_overshoot() -> None:
    """Whatever they spend of what they hold, in whatever order."""
    purse = Purse(1.0)
    chance = random.Random(1)
    parts = [(most, most * chance.random()) for most in (chance.uniform(0.01, 0.2) for _ in range(200))]

    def spend(part: tuple[float, float]) -> float:
        most, actual = part
        with purse.set_aside(most) as hold:
            if hold is None:
                return 0.0
            assert purse.spent <= 1.0
            time.sleep(0.0005)
            hold.spent = actual
            return actual

    with ThreadPoolExecutor(16) as pool:
        spent = list(pool.map(spend, parts))
    assert abs(sum(spent) - purse.spent) < 1e-9
    assert 0.7 < purse.spent <= 1.0
