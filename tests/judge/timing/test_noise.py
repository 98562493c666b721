"""What disturbed a measurement: how much others used, and what a person is advised to do."""

from __future__ import annotations

import os

import pytest

from kernelwright.judge.timing import noise
from kernelwright.judge.timing.noise import TICKS, MachineUsage, _Process, advice, interference, usage, why_noisy
from kernelwright.judge.verdict import BaselineTime, Interference, IntervalValue, SpeedStatus, WorkloadResult

pytestmark = pytest.mark.timed

SELF = os.getpid()


def reading(at: float, busy: int, stolen: int, **ticks: int) -> MachineUsage:
    """`own` is this process, `child` its child, `other` another's."""
    parents = {"own": (SELF, 1), "child": (SELF + 1, SELF), "other": (SELF + 2, 1)}
    processes = {parents[name][0]: _Process(name, parents[name][1], used) for name, used in ticks.items()}
    return MachineUsage(at, 2, busy, stolen, processes)


def noisy_result(**given: object) -> WorkloadResult:
    times = BaselineTime(baseline="eager", seconds=1e-3, speedup=IntervalValue(low=1.1, mid=1.4, high=1.9))
    base = {"label": "rows=3", "sizes": {"rows": 3}, "dtype": "float32", "hidden": False, "baselines": (times,)}
    aa = IntervalValue(low=0.88, mid=1.0, high=1.21)
    return WorkloadResult(**{**base, "speed": SpeedStatus.noisy, "aa": aa, "aa_baseline": "eager", **given})


def test_what_others_used_is_what_the_machine_used_less_what_we_used() -> None:
    before = reading(0.0, 1000, 0, own=10, child=20, other=30)
    after = reading(2.0, 1000 + 3 * TICKS, TICKS, own=10, child=20 + 2 * TICKS, other=30 + TICKS)
    assert interference(before, after) == Interference(other_cores=0.5, stolen=0.25, cores=2)


def test_a_process_that_began_meanwhile_counts_from_its_start() -> None:
    before, after = reading(0.0, 0, 0, own=0), reading(1.0, TICKS, 0, own=0, child=TICKS)
    assert interference(before, after) == Interference(other_cores=0.0, stolen=0.0, cores=2)


def test_nothing_is_claimed_where_the_system_does_not_tell() -> None:
    assert interference(None, None) is None


def test_this_machine_can_be_read() -> None:
    found = usage()
    assert found is not None and found.cores >= 1 and SELF in found.processes and SELF in found.ours()


def test_noise_is_told_with_what_was_found_what_is_allowed_and_who_disturbed() -> None:
    disturbed = Interference(other_cores=1.7, stolen=0.2, cores=2)
    lines = why_noisy([noisy_result(interference=disturbed)], "cpu")
    assert lines == [
        "too noisy on rows=3: eager timed against itself gives 0.88 to 1.21; only 0.95 to 1.05 is allowed",
        "other processes kept 1.7 of 2 cores busy meanwhile",
        "the hypervisor took 20% of the processor time",
    ]
    assert why_noisy([noisy_result(speed=SpeedStatus.measured, interference=disturbed)], "cpu") == []


@pytest.mark.parametrize(("kind", "word"), [("cpu", "--threads"), ("cuda", "nvidia-smi")])
def test_advice_is_for_the_device(kind: str, word: str) -> None:
    assert word in advice(kind, 24) and "--trials 48" in advice(kind, 24)  # type: ignore[arg-type]


def test_the_busiest_processes_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    readings = iter((reading(0.0, 0, 0, own=0, other=0), reading(1.0, 0, 0, own=99, other=TICKS)))
    monkeypatch.setattr(noise, "usage", lambda: next(readings))
    monkeypatch.setattr(noise.time, "sleep", lambda _: None)
    (line,) = noise.busiest()
    assert line.startswith(f"other (pid {SELF + 2}, ")
