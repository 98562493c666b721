"""What times say: medians and intervals that scale, swap and order as they should, and that no single time
moves.
"""

from __future__ import annotations

import random
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernelwright.judge.timing.statistics import Band, Interval, against_itself, band, inside, median, speedup

seconds = st.floats(min_value=1e-7, max_value=1e2)
pairs = st.lists(st.tuples(seconds, seconds), min_size=1, max_size=40)


def split(paired: list[tuple[float, float]]) -> tuple[list[float], list[float]]:
    return [b for b, _ in paired], [c for _, c in paired]


def near(value: float) -> object:
    return pytest.approx(value, rel=1e-12)


@given(pairs)
def test_the_interval_contains_the_median(paired: list[tuple[float, float]]) -> None:
    got = speedup(*split(paired))
    assert got.low <= got.mid <= got.high
    ratios = sorted(b / c for b, c in paired)
    assert ratios[(len(ratios) - 1) // 2] <= got.mid * (1 + 1e-12)
    assert got.mid <= ratios[len(ratios) // 2] * (1 + 1e-12)


@given(pairs, st.floats(min_value=1e-3, max_value=1e3))
def test_a_slower_machine_changes_nothing(paired: list[tuple[float, float]], factor: float) -> None:
    baseline, candidate = split(paired)
    once = speedup(baseline, candidate)
    scaled = speedup([factor * b for b in baseline], [factor * c for c in candidate])
    assert scaled == Interval(near(once.low), near(once.mid), near(once.high))  # type: ignore[arg-type]


@given(pairs)
def test_swapping_the_two_inverts_the_interval(paired: list[tuple[float, float]]) -> None:
    baseline, candidate = split(paired)
    forward, back = speedup(baseline, candidate), speedup(candidate, baseline)
    assert back == Interval(near(1 / forward.high), near(1 / forward.mid), near(1 / forward.low))  # type: ignore[arg-type]


@given(pairs, st.data())
def test_a_faster_candidate_never_looks_slower(paired: list[tuple[float, float]], data: st.DataObject) -> None:
    baseline, candidate = split(paired)
    faster = [c * data.draw(st.floats(min_value=0.1, max_value=1.0)) for c in candidate]
    before, after = speedup(baseline, candidate), speedup(baseline, faster)
    assert after.low >= before.low
    assert after.mid >= before.mid * (1 - 1e-12)
    assert after.high >= before.high


@given(st.integers(min_value=9, max_value=40), st.sampled_from([1e-30, 1e30]))
def test_one_absurd_time_moves_no_end_of_the_interval_far(count: int, absurd: float) -> None:
    chance = random.Random(count)
    baseline = [1e-3 * chance.uniform(0.99, 1.01) for _ in range(count)]
    candidate = [5e-4 * chance.uniform(0.99, 1.01) for _ in range(count)]
    candidate[count // 3] = absurd
    got = speedup(baseline, candidate)
    assert 1.9 < got.low <= got.mid <= got.high < 2.1


@pytest.mark.parametrize("count", [9, 15, 20, 31, 40])
def test_the_interval_is_what_many_resamples_give(count: int) -> None:
    chance = random.Random(count)
    ratios = [chance.lognormvariate(0.0, 0.3) for _ in range(count)]
    got = speedup(ratios, [1.0] * count)
    ordered = sorted(ratios)
    lower = sorted(sorted(chance.choices(ordered, k=count))[(count - 1) // 2] for _ in range(4000))
    simulated = lower[int(0.025 * 4000)]
    assert abs(ordered.index(simulated) - ordered.index(got.low)) <= 1


@pytest.mark.parametrize("count", [9, 20, 40])
def test_the_interval_holds_the_true_median_about_as_often_as_it_says(count: int) -> None:
    chance = random.Random(7)
    held = 0
    for _ in range(2000):
        got = speedup([chance.lognormvariate(0.0, 0.5) for _ in range(count)], [1.0] * count)
        held += got.low <= 1.0 <= got.high
    assert 0.92 < held / 2000 < 0.985


def test_many_times_take_no_time() -> None:
    chance = random.Random(1)
    baseline = [chance.uniform(1, 2) for _ in range(40)]
    start = time.process_time()
    for _ in range(20):
        speedup(baseline, baseline[::-1])
    assert (time.process_time() - start) / 20 < 0.01
    speedup([chance.uniform(1, 2) for _ in range(5000)], [1.0] * 5000)


@given(st.lists(seconds, min_size=1, max_size=30))
def test_the_median_splits_the_values(values: list[float]) -> None:
    middle = median(values)
    assert sum(v < middle * (1 - 1e-12) for v in values) <= len(values) / 2
    assert sum(v > middle * (1 + 1e-12) for v in values) <= len(values) / 2


def test_a_steady_drift_cancels_when_a_baseline_meets_itself() -> None:
    got = against_itself([1e-3 * 1.002**i for i in range(40)])
    assert got.mid == pytest.approx(1.0, abs=1e-3)
    assert inside(got, band("cpu", 1e-3))


def test_a_noisy_baseline_is_outside_its_band() -> None:
    chance = random.Random(3)
    got = against_itself([1e-3 * chance.lognormvariate(0, 0.3) for _ in range(20)])
    assert not inside(got, band("cpu", 1e-3))


@pytest.mark.parametrize(
    ("kind", "duration", "width"),
    [
        ("cpu", 1e-6, 0.05),
        ("cpu", 1.0, 0.05),
        ("cuda", 51e-6, 0.01),
        ("cuda", 50e-6, 0.03),
        ("cuda", 10e-6, 0.03),
        ("cuda", 8e-6, 0.025),
        ("cuda", 2e-6, 0.1),
    ],
)
def test_bands_are_those_of_the_design(kind: str, duration: float, width: float) -> None:
    got = band(kind, duration)  # type: ignore[arg-type]
    assert (got.low, got.high) == (pytest.approx(1 - width), pytest.approx(1 + width))


def test_both_ends_count_for_being_inside() -> None:
    allowed = Band(0.95, 1.05)
    assert inside(Interval(0.95, 1.0, 1.05), allowed)
    assert not inside(Interval(0.94, 1.0, 1.01), allowed)
    assert not inside(Interval(0.99, 1.0, 1.06), allowed)


@pytest.mark.parametrize("bad", [[], [1.0, 0.0], [1.0, -1.0], [1.0, float("nan")], [float("inf"), 1.0]])
def test_times_that_no_clock_gives_are_refused(bad: list[float]) -> None:
    with pytest.raises(ValueError, match="time"):
        speedup(bad, [1.0] * len(bad))
    with pytest.raises(ValueError, match="time"):
        speedup([1.0] * len(bad), bad)


def test_unpaired_times_and_unknown_devices_are_refused() -> None:
    with pytest.raises(ValueError, match="paired"):
        speedup([1.0, 2.0], [1.0])
    with pytest.raises(ValueError, match="tpu"):
        band("tpu", 1.0)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="duration"):
        band("cuda", float("nan"))
