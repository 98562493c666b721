"""The ledger: what is given back, in which order, and what is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernelwright.judge.oracle.ledger import GIB, Ledger, Need, TooLargeError, shown


class Holder:
    def __init__(self, ledger: Ledger, name: str, task: str, count: int) -> None:
        self.held = count
        ledger.keep(name, task, lambda: self.held, self.free)

    def free(self) -> None:
        self.held = 0


def test_what_was_used_longest_ago_goes_first() -> None:
    ledger = Ledger(100)
    one, two, three = (Holder(ledger, name, "task", 30) for name in "abc")
    ledger.use("a")
    ledger.make_room(40)
    assert (one.held, two.held, three.held) == (30, 0, 30)
    assert ledger.used == 60


def test_what_is_kept_stays_even_if_there_is_no_room_then() -> None:
    ledger = Ledger(100)
    one, two = Holder(ledger, "a", "task", 60), Holder(ledger, "b", "task", 30)
    ledger.make_room(90, kept={"a"})
    assert (one.held, two.held) == (60, 0)


def test_nothing_is_given_back_where_there_is_room() -> None:
    ledger = Ledger(100)
    one = Holder(ledger, "a", "task", 60)
    ledger.make_room(40)
    assert one.held == 60


def test_another_task_gives_back_what_is_not_little() -> None:
    ledger = Ledger(1000)
    large, little, own = Holder(ledger, "a", "old", 500), Holder(ledger, "b", "old", 5), Holder(ledger, "c", "new", 300)
    ledger.enter("new", small=10)
    assert (large.held, little.held, own.held) == (0, 5, 300)


def test_sizes_count_as_they_are_when_asked() -> None:
    ledger = Ledger(100)
    grows = Holder(ledger, "a", "task", 10)
    grows.held = 90
    assert ledger.used == 90
    ledger.make_room(20)
    assert grows.held == 0


def test_what_does_not_fit_is_refused_in_one_line() -> None:
    ledger = Ledger(2 * GIB)
    ledger.require("relu at rows=4", "this machine", Need(GIB, GIB // 2, GIB // 4, GIB // 4))
    with pytest.raises(TooLargeError) as refused:
        ledger.require("relu at rows=8", "this machine (24.0 GiB)", Need(2 * GIB, GIB, 0))
    assert refused.value.exit_code == 3
    said = str(refused.value)
    assert "relu at rows=8 needs 3.0 GiB; this machine (24.0 GiB) has 2.0 GiB free" in said and "\n" not in said
    with pytest.raises(TooLargeError, match="needs more;"):
        ledger.require("relu at a hidden workload", "this machine", Need(3 * GIB, 0, 0), secret=True)


@given(
    limit=st.integers(1, 1000),
    sizes=st.lists(st.integers(0, 300), max_size=12),
    wanted=st.integers(0, 1000),
    kept=st.sets(st.integers(0, 11)),
)
def test_room_is_made_wherever_it_can_be(limit: int, sizes: list[int], wanted: int, kept: set[int]) -> None:
    ledger = Ledger(limit)
    holders = [Holder(ledger, str(number), "task", size) for number, size in enumerate(sizes)]
    ledger.make_room(wanted, kept={str(number) for number in kept})
    stays = sum(size for number, size in enumerate(sizes) if number in kept)
    assert ledger.used == sum(holder.held for holder in holders) >= stays
    assert ledger.used + wanted <= limit or ledger.used == stays


def test_bytes_are_shown_in_words() -> None:
    assert shown(3 * GIB // 2) == "1.5 GiB" and shown(5 << 20) == "5.0 MiB"
