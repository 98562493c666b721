"""A thousand adaptive calls do not tell which hidden workloads come next.

An attacker knows everything but the key. He chooses on which sizes each of his programs fails, and learns of every
judging what he can. In the end he names as many sizes as he likes to pay for, those on which a last program would be
right, and wins if all three hidden workloads of that program are among them. The measure is how often he wins, against
a blind attacker who names as many sizes, the likeliest by the rule that draws them. Each attack must succeed where
workloads never retire, so that the test shows something.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace

import pytest

from kernelwright.judge.oracle.hidden_pool import HiddenPool, PoolPlace
from kernelwright.tasks import Task, tensor
from kernelwright.tasks.hidden import hidden_workloads
from kernelwright.tasks.model import Workload

CALLS = 1000
NAMED = 32  # sizes that the attacker may name in the end
LAST_PROGRAMS = 150
KEY = b"the judge's own key, which is 32"
TASK = Task(
    reference=lambda x: 2 * x,
    inputs={"x": tensor("n")},
    public=[{"n": 4000}],
    hidden={"n": (100, 30_000)},
    name="double",
)


def sizes_of(workloads: Iterable[Workload]) -> list[int]:
    return [value for workload in workloads for _, value in workload.sizes]


def likely_sizes() -> Counter[int]:
    """What anyone can find out: how often the rule draws a size with keys that are not the judge's."""
    return Counter(size for key in range(150) for size in sizes_of(hidden_workloads(TASK, key.to_bytes(32, "big"))))


class Server:
    """A judge as its callers see it."""

    def __init__(self) -> None:
        self.pool, self.calls = HiddenPool(KEY, None), 0

    def fails(self, program: str, on: set[int]) -> bool:
        """Whether the program fails on a hidden workload. Every second failure is a call without an end, which the
        attacker breaks off before there is a verdict."""
        failed = bool(on & set(self._sizes(program)))
        if not failed or self.calls % 2:
            self.pool.used(TASK, program, failed=failed)
        return failed

    def _sizes(self, program: str) -> list[int]:
        self.calls += 1
        return sizes_of(self.pool.sample(TASK, program, 3))

    @property
    def over(self) -> bool:
        return self.calls >= CALLS


def score_sizes(server: Server, prior: Counter[int], rng: random.Random) -> list[int]:
    """A new program for every call. Sizes that are in the failing set when programs fail are kept, in four rounds."""
    suspects = list(prior)
    for kept in (300, 100, 50, NAMED):
        scores = dict.fromkeys(suspects, 0.0)
        until = server.calls + CALLS // 4
        while server.calls < until:
            on = {size for size in suspects if rng.random() < 0.2}
            failed = server.fails(f"program {server.calls}", on)
            for size in on:
                scores[size] += (1.0 if failed else 0.0) - 0.5
        suspects = sorted(scores, key=lambda size: -scores[size])[:kept]
    return suspects[::-1]  # the likeliest last


def bisect_sizes(server: Server, prior: Counter[int], rng: random.Random) -> list[int]:
    """One program after another, each of which fails on other sizes at another time of the day: its three workloads
    are found by halving."""
    found: dict[int, None] = {}

    def halve(program: str, suspects: list[int]) -> None:
        if server.over or not server.fails(program, set(suspects)):
            return
        if len(suspects) == 1:
            found.pop(suspects[0], None)
            found[suspects[0]] = None
            return
        middle = len(suspects) // 2
        halve(program, suspects[:middle])
        halve(program, suspects[middle:])

    while not server.over:
        halve(f"program {server.calls}", sorted(prior))
    return list(found)[-NAMED:]


Attack = Callable[[Server, Counter[int], random.Random], list[int]]
PRIOR = likely_sizes()


def next_hidden(pool: HiddenPool, program: str) -> set[int]:
    """What a program would meet next, if it were the next one."""
    state = next(iter(pool._states.values()))
    places, programs = [replace(place) for place in state.places], dict(state.programs)
    sizes = set(sizes_of(pool.sample(TASK, program, 3)))
    state.places, state.programs = places, programs
    return sizes


def share_within(asked: list[set[int]], guess: set[int]) -> float:
    return sum(sizes <= guess for sizes in asked) / len(asked)


@pytest.mark.parametrize("attack", [score_sizes, bisect_sizes])
@pytest.mark.parametrize("retiring", [True, False], ids=["retiring", "control"])
def test_an_attacker_knows_no_more_than_the_prior(
    attack: Attack, retiring: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not retiring:
        monkeypatch.setattr(PoolPlace, "retire", lambda place: None)
    server, rng = Server(), random.Random(7)
    named = attack(server, PRIOR, rng)
    assert CALLS <= server.calls < CALLS + 20
    asked = [next_hidden(server.pool, f"last program {number}") for number in range(LAST_PROGRAMS)]
    likeliest = [size for size, _ in PRIOR.most_common() if size not in named]
    guesses = set(named), {*named[-NAMED // 2 :], *likeliest[: NAMED // 2]}
    won = max(share_within(asked, guess) for guess in guesses)
    blind = share_within(asked, {size for size, _ in PRIOR.most_common(NAMED)})
    print(f"{attack.__name__}, retiring={retiring}: wins {won:.3f} with {len(named)} sizes, blind {blind:.3f}")
    if retiring:
        assert won <= blind + 0.03
    else:
        assert won > 0.3 > blind
