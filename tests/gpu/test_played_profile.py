"""A played GPU with a played ncu: a profile is in the verdict where there is one, and never changes the decision."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from kernelwright.contracts import Candidate, nvrtc
from kernelwright.isolation.gpu_access import GpuAccess
from kernelwright.isolation.levels import Level
from kernelwright.judge.controller import Judge
from kernelwright.judge.gpu import client, ncu, profiler
from kernelwright.judge.gpu.health import helper_kernels
from kernelwright.judge.settings import Settings
from kernelwright.judge.timing.measure import Sampling
from kernelwright.judge.verdict import Outcome, Profile, Verdict, author_view
from tests.gpu.ncu_played import DENIED, PlayedNcu, table
from tests.gpu.played import CUDA, PlayedLauncher, play
from tests.gpu.test_played import TASK, kernel

pytestmark = pytest.mark.skipif(bool(nvrtc.available()), reason=nvrtc.available())

QUICK = Settings(baselines=("eager",), effort=Sampling(2, 2), device=CUDA, safety=False, public_only=True, profile=True)
Install = Callable[..., PlayedNcu]


class Bench:
    def __init__(self, judge: Judge, task: str, asked: list[str]) -> None:
        self._judge, self._task, self.asked = judge, task, asked

    def verdict(self, candidate: Candidate, settings: Settings = QUICK) -> Verdict:
        return self._judge.judge(self._task, candidate, settings=settings)


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    task = tmp_path_factory.mktemp("task") / "twice.py"
    task.write_text(TASK)
    with pytest.MonkeyPatch.context() as patched:
        asked = play(patched)
        with Judge(QUICK) as judge:
            yield Bench(judge, str(task), asked)
    assert PlayedLauncher.up == 0


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    def installed(report: str = "", mode: str = "") -> PlayedNcu:
        played = PlayedNcu(tmp_path, report, mode)
        monkeypatch.setattr(client, "gpu_access", lambda _: GpuAccess((), "GPU-played"))
        # It writes its calls into a file of ours, which a confined process could not.
        monkeypatch.setattr(profiler, "LauncherProcess", partial(client.LauncherProcess, level=Level.none))
        monkeypatch.setattr(profiler, "ncu", lambda: str(played.path))
        return played

    return installed


def told(verdict: Verdict) -> Profile:
    assert verdict.verdict is Outcome.accepted, verdict.evidence
    first, *others = verdict.workloads
    assert first.profile is not None and not first.hidden and not any(other.profile for other in others)
    return first.profile


def test_the_first_public_workload_has_a_profile_and_no_other(bench: Bench, install: Install) -> None:
    played = install(table("_Z6honestPKfPfi"))
    verdict = bench.verdict(kernel("honest"), replace(QUICK, public_only=False, safety=True))
    assert len(verdict.workloads) == 5
    (launch,) = told(verdict).launches
    assert (launch.kernel, launch.of_dram, launch.registers) == ("honest", 0.8125, 32)
    assert author_view(verdict).workloads[0].profile == told(verdict)
    (call,) = played.calls
    assert "--clock-control none" in call and "kernelwright.judge.launcher.launcher" in call


def test_a_candidate_is_profiled_once_however_often_it_is_judged(bench: Bench, install: Install) -> None:
    played = install(table("again"))
    first, second = bench.verdict(kernel("again")), bench.verdict(kernel("again"))
    assert told(first) == told(second) and told(first).launches and len(played.calls) == 1


def test_nobody_is_profiled_who_was_not_asked_for_or_not_accepted(bench: Bench, install: Install) -> None:
    played = install(table("wrong"))
    for verdict in (bench.verdict(kernel("plain"), replace(QUICK, profile=False)), bench.verdict(kernel("wrong"))):
        assert all(result.profile is None for result in verdict.workloads)
    assert not played.calls


@pytest.mark.parametrize(
    ("name", "report", "mode", "why"),
    [
        ("silent", "", "silent", "no launch"),
        ("garbage", '"ID","x"\n\x00,,"\n', "", "no launch"),
        ("several", table("a", "b"), "", "2 launches where 1"),
        ("faulting", table("a"), "fault", "ILLEGAL_ADDRESS"),
        ("hanging", table("a"), "hang", "not done in time"),
        ("unstarted", table("a"), "broken start", "did not start"),
    ],
)
def test_what_goes_wrong_is_said_and_the_verdict_stands(
    name: str, report: str, mode: str, why: str, bench: Bench, install: Install, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(profiler, "SECONDS", 0.5)
    install(report, mode)
    before = len(bench.asked)
    profile = told(bench.verdict(kernel(name)))
    assert why in profile.missing and not profile.launches
    assert len(bench.asked) == before + (mode in ("fault", "hang"))  # the device is looked at before the next one


def test_a_profiler_that_is_not_there_is_said(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(profiler, "ncu", lambda: None)
    assert told(bench.verdict(kernel("nothing"))).missing == ncu.NOT_INSTALLED
    monkeypatch.setattr(profiler, "ncu", lambda: "/nonexistent/ncu")
    monkeypatch.setattr(client, "gpu_access", lambda _: GpuAccess((), "GPU-played"))
    assert "exit code 127" in told(bench.verdict(kernel("nowhere"))).missing


def test_without_permission_nobody_is_asked_twice(bench: Bench, install: Install) -> None:
    """The last test here: the judge remembers it."""
    played = install(DENIED)
    assert told(bench.verdict(kernel("denied"))).missing == ncu.NOT_PERMITTED
    assert told(bench.verdict(kernel("next"))).missing == ncu.NOT_PERMITTED
    assert len(played.calls) == 2  # the candidate, and a kernel of our own


def test_whether_counters_may_be_read_is_asked_with_a_kernel_of_our_own(install: Install) -> None:
    helpers = helper_kernels("sm_90")
    install(table("kw_well"))
    assert profiler.why_not(helpers) == ""
    install(DENIED)
    assert profiler.why_not(helpers) == ncu.NOT_PERMITTED
