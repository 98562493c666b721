"""Blocks of trials: who is called how often, and what decides about more of them."""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, cast

import pytest

from kernelwright.isolation.warden import Ending
from kernelwright.judge.timing.measure import MOST_REPEATS, REPEATS, Clock, Measurement, Sampling, Times
from kernelwright.judge.verdict import SpeedStanding, SpeedStatus, WorkloadResult
from kernelwright.tasks.model import Workload


class Oracle:
    def __init__(self) -> None:
        self.loaded, self.seconds = 0, 0.0

    def load(self) -> str:
        self.loaded += 1
        time.sleep(self.seconds)
        return "normal"

    def restore(self) -> None: ...

    def check(self, *, remember: bool = False) -> None: ...


class Process:
    """A candidate or a baseline that takes the given times, one after another."""

    def __init__(self, seconds: Iterator[float]) -> None:
        self.seconds, self.calls, self.nothing = seconds, 0, 0.0005

    def time(self) -> float:
        self.calls += 1
        return next(self.seconds)

    def empty(self) -> float:
        return self.nothing

    def trial(self, op: str, deadline: float) -> Any:
        return SimpleNamespace(ending=Ending.ok, seconds=self.time())


class NullRunners:
    def take(self) -> None: ...


class Overheads:
    """Null runners whose empty trials take the given times."""

    def __init__(self, *medians: float) -> None:
        self._medians = medians

    @contextmanager
    def running(self) -> Iterator[NullRunners]:
        yield NullRunners()

    def medians(self) -> tuple[float, ...]:
        return self._medians


class Bench:
    def __init__(self, fast: Iterator[float], slow: float = 0.03, overheads: Overheads | None = None) -> None:
        self.oracle, self.candidate = Oracle(), Process(itertools.repeat(0.004))
        self.fast, self.slow = Process(fast), Process(itertools.repeat(slow))
        spec = SimpleNamespace(workload=Workload((("rows", 3),)))
        self.measurement = Measurement(
            cast(Any, self.oracle),
            cast(Any, spec),
            cast(Any, self.candidate),
            cast(Any, {"fast": self.fast, "slow": self.slow}),
            {"fast": 0.01, "slow": 0.03},
            Clock("cpu", cast(Any, overheads)),
            random.Random(1),
        )


def noisy() -> Iterator[float]:
    draw = random.Random(2)
    while True:
        yield 0.01 * draw.uniform(0.5, 1.5)


def test_a_quiet_baseline_is_called_twice_in_each_block() -> None:
    bench = Bench(itertools.repeat(0.01))
    times = bench.measurement.run(Sampling(least=6, most=60), lambda: None)
    assert bench.oracle.loaded == bench.candidate.calls == bench.slow.calls == 6
    assert bench.fast.calls == 12 and len(times.twice["fast"]) == len(times.candidate) == 6


def test_a_noisy_baseline_is_called_more_often_and_a_candidate_is_not() -> None:
    bench = Bench(noisy())
    times = bench.measurement.run(Sampling(least=6, most=18), lambda: None)
    assert bench.oracle.loaded == bench.candidate.calls == bench.slow.calls == 18
    assert bench.fast.calls == 2 * 6 + 2 * REPEATS * 12
    assert {len(values) for values in (times.candidate, times.twice["fast"], *times.baselines.values())} == {18}
    result = bench.measurement.result(times)
    assert result.speed is SpeedStatus.noisy and result.trials == 18


def test_where_values_take_long_a_noisy_baseline_is_called_as_often_as_fits_into_that_time() -> None:
    bench = Bench(0.1 * seconds for seconds in noisy())
    bench.oracle.seconds = 0.04
    bench.measurement.run(Sampling(least=6, most=12), lambda: None)
    assert bench.candidate.calls == 12 and bench.fast.calls == 2 * 6 + 2 * MOST_REPEATS * 6


def test_the_baseline_that_turns_out_to_be_the_fastest_is_the_one_that_must_agree_with_itself() -> None:
    bench = Bench(itertools.repeat(0.01), slow=0.005)  # in spite of what its first times said
    times = bench.measurement.run(Sampling(least=12, most=12), lambda: None)
    result = bench.measurement.result(times)
    assert result.aa_baseline == "slow" and result.speed is SpeedStatus.measured
    assert len(times.twice["slow"]) == 11 and {
        len(result.raw_seconds[f"slow, {turn}"]) for turn in ("first", "again")
    } == {11}
    assert result.fastest_baseline is not None and result.fastest_baseline.baseline == "slow"


def test_a_baseline_that_became_the_fastest_too_late_tells_nothing() -> None:
    bench = Bench(itertools.chain(itertools.repeat(0.01, 18), itertools.repeat(9.0)), slow=0.03)
    result = bench.measurement.result(bench.measurement.run(Sampling(least=20, most=20), lambda: None))
    assert result.aa_baseline == "slow" and result.speed is SpeedStatus.noisy


def test_close_baselines_are_both_called_twice() -> None:
    bench = Bench(itertools.repeat(0.01), slow=0.015)
    times = bench.measurement.run(Sampling(least=6, most=60), lambda: None)
    assert bench.fast.calls == 12 and bench.slow.calls == 11 and len(times.twice["slow"]) == 5


def test_what_may_be_claimed_is_the_least_over_all_baselines() -> None:
    wild = [1.2, 1.3, 2.2, 2.3, 2.4, 2.4, 2.5, 2.6]
    times = Times([1.0] * 8, {"fast": [2.0] * 8, "slow": wild}, {"fast": [(2.0, 2.0)] * 8, "slow": []})
    result = Bench(itertools.repeat(0.01)).measurement.result(times)
    assert result.fastest_baseline is not None and result.fastest_baseline.baseline == "fast"
    assert result.best_baseline is not None and result.best_baseline.baseline == "slow"


@pytest.mark.parametrize("candidate", [0.0001, 0.004, 0.02])
def test_a_candidate_does_not_choose_its_sample_size(candidate: float) -> None:
    counts = set()
    for jitter in (0.0, 0.9):
        bench, draw = Bench(noisy()), random.Random(3)
        bench.candidate.seconds = iter(lambda b=jitter, d=draw: candidate * (1 + b * d.random()), None)
        bench.measurement.run(Sampling(least=6, most=400), lambda: None)
        counts.add(bench.oracle.loaded)
    assert len(counts) == 1 and counts.pop() > 6


def erratic(fast: float, slow: float) -> Iterator[float]:
    """Every other call is slow, which no number of calls makes narrow."""
    return itertools.cycle((fast, slow))


def test_an_interval_that_is_too_wide_decides_nothing_after_twice_the_sample() -> None:
    bench = Bench(itertools.repeat(0.01))
    bench.candidate.seconds = erratic(0.001, 0.008)
    times = bench.measurement.run(Sampling(least=12, most=160), lambda: None)
    assert len(times.candidate) == 24  # a candidate gets one of two sizes, whatever it does
    assert bench.measurement.result(times).speed is SpeedStatus.wide
    assert bench.measurement.result(times).standing is None


def test_twice_the_sample_is_never_more_than_the_effort_allows() -> None:
    bench = Bench(itertools.repeat(0.01))
    bench.candidate.seconds = erratic(0.001, 0.008)
    assert len(bench.measurement.run(Sampling(least=12, most=16), lambda: None).candidate) == 16


def test_an_interval_that_twice_the_sample_makes_narrow_is_measured() -> None:
    bench = Bench(itertools.repeat(0.01))
    bench.candidate.seconds = itertools.chain([0.001, 0.008] * 6, itertools.repeat(0.004))
    times = bench.measurement.run(Sampling(least=12, most=160), lambda: None)
    result = bench.measurement.result(times)
    assert len(times.candidate) == 24
    assert result.speed is SpeedStatus.measured and result.standing is SpeedStanding.faster


def test_a_measured_speed_says_whether_it_is_faster_slower_or_neither() -> None:
    for seconds, standing in ((0.004, "faster"), (0.02, "slower"), (0.01, "no_difference")):
        bench = Bench(itertools.repeat(0.01))
        bench.candidate.seconds = itertools.repeat(seconds)
        result = bench.measurement.result(bench.measurement.run(Sampling(least=6, most=6), lambda: None))
        assert result.standing == standing
        again = WorkloadResult.model_validate_json(result.model_dump_json())
        assert again == result and f'"standing":"{standing}"' in result.model_dump_json()


def measured(overheads: Overheads, seconds: float = 0.004) -> WorkloadResult:
    bench = Bench(itertools.repeat(0.01), overheads=overheads)
    bench.candidate.seconds = itertools.repeat(seconds)
    return bench.measurement.result(bench.measurement.run(Sampling(least=6, most=6), lambda: None))


def test_an_interval_has_the_spread_of_empty_trials_over_processes() -> None:
    result = measured(Overheads(0.0002, 0.0003, 0.00025))
    fast = result.baselines[0]
    assert result.speed is SpeedStatus.measured
    assert result.seconds == pytest.approx(0.004 - 0.00025) and fast.seconds == pytest.approx(0.01 - 0.0005)
    assert fast.speedup.low == pytest.approx(0.0095 / (0.004 - 0.0002))  # claimed with the least
    assert fast.speedup.mid == pytest.approx(0.0095 / (0.004 - 0.00025))
    assert fast.speedup.high == pytest.approx(0.0095 / (0.004 - 0.0003))
    assert result.raw_seconds["overhead"] == (0.0002, 0.0003, 0.00025)
    assert result.raw_seconds["fast, empty"] == (0.0005,) * 6


def test_a_speed_that_empty_trials_decide_is_undecided() -> None:
    wild = Overheads(0.0002, 0.0019, 0.0003)
    assert measured(wild, seconds=0.004).speed is SpeedStatus.near_overhead
    assert measured(wild, seconds=0.004).standing is None
    assert measured(wild, seconds=0.09).speed is SpeedStatus.measured  # for a long call the same does not matter


def test_what_a_process_adds_to_the_most_lowers_no_time_that_is_claimed() -> None:
    claims = [measured(Overheads(0.0002, most)).baselines[0].speedup.low for most in (0.0002, 0.0003, 0.001)]
    assert claims == [claims[0]] * 3
