"""Budgets: what can be written, what it means, and one line for what cannot."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernelwright.search.core.budget import Budget, BudgetError, Spent, parse

amounts = st.one_of(st.none(), st.integers(1, 10**6))


def test_all_parts_in_any_order() -> None:
    assert parse("200evals,30m,10m-device") == Budget(200, 1800.0, 600.0)
    assert parse(" 10m-device , 1eval,1.5h") == Budget(1, 5400.0, 600.0)
    assert parse("90s") == Budget(wall=90.0)
    assert parse("5usd,10evals") == Budget(10, usd=5.0) and parse("0.25usd") == Budget(usd=0.25)


@given(evaluations=amounts, wall=amounts, device=amounts)
def test_what_is_said_reads_back_the_same(evaluations: int | None, wall: int | None, device: int | None) -> None:
    budget = Budget(evaluations, None if wall is None else wall * 1.0, None if device is None else device * 1.0)
    if str(budget):
        assert parse(str(budget)) == budget


@given(seconds=st.floats(0.001, 1e6))
def test_fractions_of_seconds_read_back_the_same(seconds: float) -> None:
    assert parse(str(Budget(wall=seconds))) == Budget(wall=seconds)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "cannot read ''"),
        ("fast", "cannot read 'fast'"),
        ("200", "cannot read '200'"),
        ("200 evals", "cannot read '200 evals'"),
        ("-3evals", "cannot read '-3evals'"),
        ("1e3evals", "cannot read"),
        ("10m,20s", "limits the same thing twice"),
        ("0evals", "leaves nothing to do"),
        ("0.0m", "leaves nothing to do"),
        ("nan", "cannot read 'nan'"),
        ("5m,", "cannot read ''"),
        ("5usd,1usd", "limits the same thing twice"),
        ("0usd", "leaves nothing to do"),
        ("5eur", "cannot read '5eur'"),
        (f"{'9' * 400}h", "9… is more than a run can use"),
        (f"{'9' * 400}usd", "9… is more than a run can use"),
        (f"{'9' * 400}evals", "9… is more than a run can use"),
        (f"{'9' * 5000}evals", "9… is more than a run can use"),
        (f"{'9' * 5000}eggs", "cannot read '999"),
    ],
)
def test_one_line_for_what_cannot_be_read(text: str, said: str) -> None:
    with pytest.raises(BudgetError) as caught:
        parse(text)
    assert said in str(caught.value) and "\n" not in str(caught.value) and caught.value.exit_code == 2
    assert len(str(caught.value)) < 240


@given(text=st.text(max_size=30))
def test_any_text_is_a_budget_or_a_one_line_error(text: str) -> None:
    try:
        budget = parse(text)
    except BudgetError as error:
        assert len(str(error).splitlines()) == 1
    else:
        assert parse(str(budget)).evaluations == budget.evaluations


def test_what_is_used_up_is_named() -> None:
    budget = parse("10evals,1m")
    assert budget.exceeded(Spent(9, 59.0, 1e9)) is None
    assert budget.exceeded(Spent(10, 0.0, 0.0)) == "10 evaluations"
    assert budget.exceeded(Spent(0, 60.0, 0.0)) == "1m of wall time"
    assert budget.used(Spent(5, 45.0, 0.0)) == 0.75
    assert parse("5m-device").exceeded(Spent(0, 0, 300.0)) == "5m of device time"


@given(usd=st.floats(0.0001, 1e6))
def test_money_reads_back_the_same_and_runs_out(usd: float) -> None:
    budget = Budget(usd=usd)
    assert parse(str(budget)) == budget
    assert budget.exceeded(Spent(usd=usd)) is not None and budget.exceeded(Spent(usd=usd / 2)) is None
    assert budget.used(Spent(usd=usd / 2)) == pytest.approx(0.5)


def test_time_is_kept_on_the_wall_and_on_the_device() -> None:
    for text, spent in (("60s", Spent(wall=45.0)), ("60s-device", Spent(device=45.0))):
        assert parse(text).keeps_time(spent, 15.0, 0.5) and not parse(text).keeps_time(spent, 14.0, 0.5)
        assert not parse(text).keeps_time(spent, 1e9, 0.2)
    assert not parse("9evals").keeps_time(Spent(9, 1e9, 1e9), 1e9, 0.5)


def test_more_is_what_a_run_can_go_on_with() -> None:
    assert str(parse("20evals,1m").more(Spent(20, 5.0))) == "40evals,1m"
    assert str(parse("20evals,1m").more(Spent(3, 148.0))) == "20evals,5m"
    assert str(parse("10s,2usd").more(Spent(9, 12.0, 0.0, 1.5))) == "24s,4.0usd"
    assert parse("20evals,1m,2usd").gone(Spent(20, 147.6, 9.0, 1.5)) == "20 evaluations, 148 s, $1.50 for models"


def test_time_left_is_that_of_the_limit_which_is_reached_first() -> None:
    spent = Spent(wall=50.0, device=8.0)
    assert parse("10evals").seconds_left(spent) == math.inf
    assert parse("1m").seconds_left(spent) == 10.0
    assert parse("1m,9s-device").seconds_left(spent) == 1.0
    assert parse("40s").seconds_left(spent) < 0
