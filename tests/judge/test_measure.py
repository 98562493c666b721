"""Blocks of trials: who is called how often, and what decides about more of them."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from kernelwright.judge.measure import REPEATS, Clock, Effort, Measurement
from kernelwright.judge.nothing import Overhead
from kernelwright.judge.verdict import SpeedStatus
from kernelwright.judge.warden import Ending
from kernelwright.tasks.model import Workload


class Oracle:
    def __init__(self) -> None:
        self.loaded = 0

    def load(self) -> str:
        self.loaded += 1
        return "normal"

    def restore(self) -> None: ...

    def check(self, *, remember: bool = False) -> None: ...


class Process:
    """A candidate or a baseline that takes the given times, one after another."""

    def __init__(self, seconds: Iterator[float]) -> None:
        self.seconds, self.calls = seconds, 0

    def time(self) -> float:
        self.calls += 1
        return next(self.seconds)

    def trial(self, op: str, deadline: float) -> Any:
        return SimpleNamespace(ending=Ending.ok, seconds=self.time())


class Bench:
    def __init__(self, fast: Iterator[float]) -> None:
        self.oracle, self.candidate = Oracle(), Process(itertools.repeat(0.004))
        self.fast, self.slow = Process(fast), Process(itertools.repeat(0.02))
        posed = SimpleNamespace(workload=Workload((("rows", 3),)))
        self.measurement = Measurement(
            cast(Any, self.oracle),
            cast(Any, posed),
            cast(Any, self.candidate),
            cast(Any, {"fast": self.fast, "slow": self.slow}),
            {"fast": 0.01, "slow": 0.02},
            Clock("cpu", Overhead(0.0, 0.0)),
            random.Random(1),
        )


def noisy() -> Iterator[float]:
    draw = random.Random(2)
    while True:
        yield 0.01 * draw.uniform(0.5, 1.5)


def test_a_quiet_baseline_is_called_twice_in_each_block() -> None:
    bench = Bench(itertools.repeat(0.01))
    times = bench.measurement.run(Effort(least=6, most=60), lambda: None)
    assert bench.oracle.loaded == bench.candidate.calls == bench.slow.calls == 6
    assert bench.fast.calls == 12 and len(times.again) == len(times.candidate) == 6


def test_a_noisy_baseline_is_called_more_often_and_a_candidate_is_not() -> None:
    bench = Bench(noisy())
    times = bench.measurement.run(Effort(least=6, most=18), lambda: None)
    assert bench.oracle.loaded == bench.candidate.calls == bench.slow.calls == 18
    assert bench.fast.calls == 2 * 6 + 2 * REPEATS * 12
    assert {len(values) for values in (times.candidate, times.again, *times.baselines.values())} == {18}
    result = bench.measurement.result(times)
    assert result.speed is SpeedStatus.noisy and result.trials == 18


@pytest.mark.parametrize("candidate", [0.0001, 0.004, 0.02])
def test_a_candidate_does_not_choose_its_sample_size(candidate: float) -> None:
    counts = set()
    for jitter in (0.0, 0.9):
        bench, draw = Bench(noisy()), random.Random(3)
        bench.candidate.seconds = iter(lambda b=jitter, d=draw: candidate * (1 + b * d.random()), None)
        bench.measurement.run(Effort(least=6, most=400), lambda: None)
        counts.add(bench.oracle.loaded)
    assert len(counts) == 1 and counts.pop() > 6
