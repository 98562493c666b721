"""The bandit finds who brings most for the money, keeps trying the others, and is a function of its history."""

from __future__ import annotations

import math
import random
from collections import Counter

import pytest

from kernelwright.llm.bandit import Bandit

History = list[tuple[str, float, float]]


def told(history: History, weights: dict[str, float] | None = None) -> Bandit:
    bandit = Bandit(weights or {"a": 1.0, "b": 1.0, "c": 1.0}, evaluation_usd=0.001)
    for member, gain, usd in history:
        bandit.reward(member, gain, usd)
    return bandit


def choices(bandit: Bandit, count: int = 600) -> Counter[str]:
    return Counter(bandit.choose(f"seed {number}") for number in range(count))


def test_at_first_everybody_is_tried() -> None:
    counts = choices(told([]))
    assert all(150 < counts[name] < 250 for name in "abc")


def test_weights_are_preferences() -> None:
    counts = choices(told([], {"a": 3.0, "b": 1.0, "c": 1.0}))
    assert counts["a"] > 1.5 * counts["b"]


def test_the_same_history_gives_the_same_choices() -> None:
    history = [("a", 0.1, 0.02), ("b", 0.0, 0.01), ("a", 0.0, 0.02), ("c", 0.3, 0.1)]
    first, second = told(history), told(history)
    assert [first.choose(str(n)) for n in range(50)] == [second.choose(str(n)) for n in range(50)]


def test_gain_is_weighed_against_cost() -> None:
    """`a` and `b` gain the same, and `b` costs a tenth of it; `c` gains nothing."""
    history: History = [("a", 0.1, 0.1), ("b", 0.1, 0.01), ("c", 0.0, 0.01)] * 20
    counts = choices(told(history))
    assert counts["b"] > 0.95 * 600


def test_who_is_free_but_useless_does_not_win() -> None:
    history: History = [("a", 0.2, 0.005), ("b", 0.0, 0.0), ("c", 0.0, 0.0)] * 30
    assert choices(told(history))["a"] > 0.8 * 600


def test_a_newcomer_is_tried_beside_one_that_does_well() -> None:
    history: History = [("a", 0.1, 0.01), ("b", 0.0, 0.01)] * 30
    counts = choices(told(history))
    assert counts["c"] > 20 > counts["b"]


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_the_scale_of_gains_does_not_matter(scale: float) -> None:
    history: History = [("a", 0.1 * scale, 0.01), ("b", 0.02 * scale, 0.01), ("c", 0.0, 0.02)] * 4
    assert choices(told(history)) == choices(told([(m, g / scale, usd) for m, g, usd in history]))


def test_in_play_it_ends_up_with_the_best() -> None:
    """Gains by chance: `b` brings twice as much per dollar as `a`, three times as much as `c`."""
    chance = random.Random(7)
    means, prices = {"a": 0.05, "b": 0.05, "c": 0.1}, {"a": 0.02, "b": 0.01, "c": 0.06}
    bandit = told([])
    asked: list[str] = []
    for turn in range(600):
        name = bandit.choose(str(turn))
        asked.append(name)
        gain = means[name] / 0.3 * chance.random() * 2 if chance.random() < 0.3 else 0.0
        bandit.reward(name, gain, prices[name])
    assert Counter(asked[300:])["b"] > 0.7 * 300


def test_a_loss_counts_as_nothing_and_so_does_what_means_nothing() -> None:
    nothing = choices(told([("a", 0.0, 0.0)] * 5))
    for gain, usd in [(-5.0, 0.0), (math.nan, 0.0), (math.inf, 0.0), (0.0, -0.4), (0.0, math.nan), (0.0, math.inf)]:
        assert choices(told([("a", gain, usd)] * 5)) == nothing
