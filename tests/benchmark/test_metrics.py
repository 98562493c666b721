"""Metrics: pure functions of rows, which leaving out, hiding or repeating samples cannot improve."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernelwright.benchmark import metrics as metrics_module
from kernelwright.benchmark.metrics import (
    SPEEDS,
    RatioPart,
    claim,
    error_ratio,
    estimated,
    is_fast,
    metrics,
    opened_tasks,
    pass_at,
    sol,
    summary,
)
from kernelwright.benchmark.results import ErrorRow, RejectionClass, Results, RowOutcome, SampleRow, Unopened, fold
from kernelwright.judge.verdict import SpeedStatus
from tests.benchmark.made import ENVIRONMENT, plan, results, row, workload

pytestmark = pytest.mark.usefixtures("_few_resamples")
TASKS = [f"task {number}" for number in range(5)]
SPEEDUPS = st.floats(0.05, 20.0)
LOWS = st.one_of(st.none(), SPEEDUPS)
OUTCOMES = st.sampled_from(RowOutcome)


@pytest.fixture(scope="module")
def _few_resamples() -> Iterator[None]:
    """What holds of an interval holds of a rough one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(metrics_module, "RESAMPLES", 10)
        yield


@st.composite
def any_results(draw: st.DrawFn) -> Results:
    """Some samples of some tasks, with any outcome."""
    samples = draw(st.integers(1, 3))
    found: list[SampleRow] = []
    for task, sample in itertools.product(TASKS, range(samples)):
        if draw(st.booleans()):
            found.append(row(task, sample, draw(LOWS), draw(OUTCOMES)))
    return results(found, TASKS, samples)


@given(st.integers(1, 12).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n), st.integers(1, n))))
def test_pass_at_k_is_the_share_of_all_choices_of_k_that_hold_a_right_one(numbers: tuple[int, int, int]) -> None:
    samples, right, k = numbers
    drawn = list(itertools.combinations([True] * right + [False] * (samples - right), k))
    assert pass_at(samples, right, k) == pytest.approx(sum(map(any, drawn)) / len(drawn))


@given(st.integers(2, 30).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n))))
def test_more_attempts_never_pass_less(numbers: tuple[int, int]) -> None:
    samples, right = numbers
    values = [pass_at(samples, right, k) for k in range(1, samples + 1)]
    assert values == sorted(values)
    assert values[0] == pytest.approx(right / samples)
    assert values[-1] == float(right > 0)


def test_pass_at_more_than_there_are_is_refused() -> None:
    with pytest.raises(ValueError, match="pass@3"):
        pass_at(2, 1, 3)


@given(any_results())
def test_what_is_fast_is_right_and_a_higher_bar_is_passed_by_fewer(found: Results) -> None:
    overall = metrics(found).overall
    rates = [overall.correct, *(overall.fast[p] for p in SPEEDS)]
    values = [one.value for one in rates if one.value is not None]
    assert values == sorted(values, reverse=True)
    assert all(0 <= value <= 1 for value in values)


@given(any_results())
def test_an_interval_holds_its_value(found: Results) -> None:
    overall = metrics(found).overall
    for one in (overall.correct, *overall.fast.values(), overall.speedup, overall.with_fallback, overall.sol):
        if one.value is not None and one.low is not None and one.high is not None:
            assert one.low <= one.value <= one.high


@given(any_results(), st.randoms())
def test_the_order_of_rows_does_not_matter(found: Results, draw: random.Random) -> None:
    shuffled = list(found.rows)
    draw.shuffle(shuffled)
    assert metrics(results(shuffled, TASKS, found.plan.tasks[0].samples)).overall == metrics(found).overall


@given(any_results(), st.data())
def test_leaving_a_sample_unjudged_or_undecided_never_raises_a_rate(found: Results, data: st.DataObject) -> None:
    if not found.rows:
        return
    index = data.draw(st.integers(0, len(found.rows) - 1))
    samples = found.plan.tasks[0].samples
    without = [one for number, one in enumerate(found.rows) if number != index]
    undecided = row(found.rows[index].task, found.rows[index].sample, None, RowOutcome.undecided)
    before = metrics(found).overall
    for rows in (without, [*without, undecided]):
        after = metrics(results(rows, TASKS, samples)).overall
        for p in SPEEDS:
            assert _value(after.fast[p].value) <= _value(before.fast[p].value) + 1e-12
        assert _value(after.correct.value) <= _value(before.correct.value) + 1e-12
        assert _value(after.with_fallback.value) <= _value(before.with_fallback.value) + 1e-12


def _value(value: float | None) -> float:
    return value or 0.0


@given(st.lists(SPEEDUPS, min_size=1, max_size=8))
def test_a_speedup_is_the_geometric_mean_over_tasks_of_lower_ends(lows: list[float]) -> None:
    found = results([row(f"t{number}", 0, low) for number, low in enumerate(lows)])
    value = metrics(found).overall.speedup.value
    assert value is not None
    assert math.isclose(value, math.exp(sum(map(math.log, lows)) / len(lows)))


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0.1, 1)), min_size=2, max_size=12))
def test_a_bootstrap_gives_the_same_interval_every_time(pairs: list[tuple[float, float]]) -> None:
    parts = [RatioPart(over, under) for over, under in pairs]
    assert estimated(parts, resamples=50) == estimated(parts, resamples=50)


def test_an_interval_is_narrower_over_more_tasks() -> None:
    few, many = ([RatioPart(float(number % 2), 1) for number in range(count)] for count in (8, 200))
    widths = [
        found.high - found.low
        for found in (estimated(parts, resamples=400) for parts in (few, many))
        if found.high and found.low is not None
    ]
    assert widths[1] < widths[0] / 2


def test_a_task_that_could_not_be_opened_counts_for_nobody_and_one_that_failed_counts() -> None:
    lines = [plan(["a", "b", "c"]), ENVIRONMENT, row("a"), Unopened(task="b", why="cannot be traced", at=1.0)]
    assert metrics(fold(lines, "x")).overall.correct.value == 0.5  # c is not judged yet
    lines.append(row("c", outcome=RowOutcome.failed))
    overall = metrics(fold(lines, "x")).overall
    assert overall.correct.value == 0.5
    assert (overall.tasks, overall.unopened) == (2, 1)


def test_a_task_without_a_candidate_is_one_that_is_not_right() -> None:
    tasks = [*plan(["a"]).tasks, *plan(["b"], samples=0).tasks]
    overall = metrics(
        fold([plan(tasks=["a"]).model_copy(update={"tasks": tuple(tasks)}), ENVIRONMENT, row("a")], "x")
    ).overall
    assert overall.correct.value == 0.5
    assert overall.pass_at[1].value == 0.5


def test_every_task_weighs_the_same_however_many_samples_are_right() -> None:
    rows = [
        row("a", 0),
        row("a", 1),
        row("b", 0, outcome=RowOutcome.rejected),
        row("b", 1, outcome=RowOutcome.rejected),
    ]
    overall = metrics(results(rows, samples=2)).overall
    assert overall.correct.value == 0.5
    assert {k: one.value for k, one in overall.pass_at.items()} == {1: 0.5, 2: 0.5}


def test_a_claim_is_over_the_best_baseline_and_eager_is_apart() -> None:
    one = row(workloads=[workload(0.8, eager=3.0)])
    assert claim(one) == pytest.approx(0.8)
    assert claim(one, "eager") == pytest.approx(3.0)
    assert claim(one, "missing") is None
    overall = metrics(results([one])).overall
    assert (overall.fast[1.0].value, overall.fast_eager[2.0].value) == (0.0, 1.0)


def test_what_is_only_shown_is_never_claimed_over() -> None:
    one = workload(2.0)
    shown = one.baselines[1].model_copy(update={"baseline": "eager-tf32", "claimable": False})
    assert claim(row(workloads=[one.model_copy(update={"baselines": (one.baselines[0], shown)})])) == pytest.approx(4.0)


def test_one_undecided_workload_leaves_nothing_to_claim() -> None:
    one = row(workloads=[workload(2.0), workload(2.0, hidden=True, speed=SpeedStatus.noisy)])
    assert claim(one) is None
    assert not is_fast(one, 1.0)
    assert claim(one, hidden=False) == pytest.approx(2.0)


def test_a_partial_domain_is_not_right() -> None:
    assert claim(row(partial_domain=True)) is None
    assert metrics(results([row(partial_domain=True)])).overall.correct.value == 0.0


@pytest.mark.parametrize(
    ("of_bound", "low", "expected"),
    [(0.96, 0.9, 1.0), (0.96, 1.3, 1.3), (0.94, 0.9, 0.9), (1.2, 0.9, 0.9), (None, 0.9, 0.9)],
)
def test_at_the_bound_it_is_a_tie_which_is_fast_1_and_no_more(
    of_bound: float | None, low: float, expected: float
) -> None:
    one = row(workloads=[workload(low, of_bound=of_bound)])
    assert claim(one) == pytest.approx(expected)
    assert is_fast(one, 1.0) == (expected >= 1)
    assert not is_fast(one, 1.5)


def test_sol_is_the_mean_over_workloads_of_what_is_measured() -> None:
    assert sol(row(workloads=[workload(2.0, sol=0.6), workload(2.0, sol=0.8)])) == pytest.approx(0.7)
    assert sol(row(workloads=[workload(2.0, sol=0.6), workload(2.0, speed=SpeedStatus.noisy)])) is None


def test_what_survives_on_hidden_sizes() -> None:
    rows = [
        row("a", workloads=[workload(2.0), workload(1.5, hidden=True)]),
        row("b", workloads=[workload(2.0), workload(0.5, hidden=True)]),
        row("c", outcome=RowOutcome.rejected, right_on_public=True, rejections={RejectionClass.wrong_hidden: 1}),
        row("d", outcome=RowOutcome.rejected, right_on_public=False, rejections={RejectionClass.wrong: 1}),
    ]
    overall = metrics(results(rows)).overall
    assert overall.hidden_right.value == pytest.approx(2 / 3)
    assert overall.hidden_fast.value == pytest.approx(1 / 2)
    assert overall.rejections == {RejectionClass.wrong: 1, RejectionClass.wrong_hidden: 1}


def test_errors_stand_beside_eagers() -> None:
    error = ErrorRow(result="out", rms=0.6, eager_rms=0.3, ulp=3, eager_ulp=2, share=0.1, finding="float32")
    assert error_ratio(row(errors=(error,))) == pytest.approx(2.0)
    assert error_ratio(row(errors=(error.model_copy(update={"eager_rms": 0.0}),))) is None


def test_categories_and_tasks_have_summaries_of_their_own() -> None:
    found = metrics(results([row("a"), row("b", outcome=RowOutcome.nothing)], [("a", "norms"), ("b", "products")]))
    assert [(one.name, one.correct.value) for one in found.categories] == [("norms", 1.0), ("products", 0.0)]
    assert [(one.name, one.correct.value) for one in found.tasks] == [("a", 1.0), ("b", 0.0)]
    assert found.tasks[0].correct.low is None  # of one task there is no interval


def test_nothing_judged_is_nothing_right() -> None:
    overall = summary("all", opened_tasks(results([], ["a"])))
    assert overall.correct.value == 0.0
    assert overall.speedup.value is None
