"""The judge on a played GPU: each way to fail has its reason, and what the device knows is in the verdict."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import pytest

from kernelwright.contracts import Candidate, CandidateError, nvrtc
from kernelwright.judge import certificate
from kernelwright.judge.controller import Judge
from kernelwright.judge.gpu import workshop
from kernelwright.judge.gpu.sanitize import QUICK_TOOLS, Tool
from kernelwright.judge.replay import replay
from kernelwright.judge.settings import Settings
from kernelwright.judge.timing.measure import Sampling
from kernelwright.judge.verdict import (
    Outcome,
    ProcessEvidence,
    Reason,
    SanitizerEvidence,
    SpeedStatus,
    Stage,
    Verdict,
    author_view,
)
from tests.gpu.played import CUDA, KERNEL_SECONDS, PEAKS, PlayedInspectors, PlayedLauncher, play

pytestmark = pytest.mark.skipif(bool(nvrtc.available()), reason=nvrtc.available())

TASK = '''
"""Twice the input."""
from kernelwright.tasks import Task, tensor

def reference(x):
    return x * 2

task = Task(reference, inputs={"x": tensor("rows", "cols")},
            public=[{"rows": 40, "cols": 500}, {"rows": 3, "cols": 1000}],
            hidden={"rows": (3, 70), "cols": (20, 2000)})
'''
SOURCE = """
extern "C" __global__ void NAME(const float* x, float* out, int n) {
  for (int i = threadIdx.x; i < n; i += blockDim.x) out[i] = 2 * x[i];
}
/* plan.py
import kw


def plan(x, out):
    return kw.plan(kw.launch("NAME", 1, 256, x, out, kw.i32(x.numel())))
*/
"""


def kernel(name: str, old: str = "", new: str = "") -> Candidate:
    return Candidate("cuda", SOURCE.replace("NAME", name).replace(old, new) if old else SOURCE.replace("NAME", name))


class Bench:
    def __init__(self, judge: Judge, task: str, asked: list[str]) -> None:
        self.judge, self.task, self.asked = judge, task, asked

    def verdict(self, candidate: Candidate) -> Verdict:
        return self.judge.judge(self.task, candidate)


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    task = tmp_path_factory.mktemp("task") / "twice.py"
    task.write_text(TASK)
    settings = Settings(baselines=("eager",), effort=Sampling(least=6, most=6), device=CUDA, certify=True)
    with pytest.MonkeyPatch.context() as patched:
        asked = play(patched)
        with Judge(settings) as judge:
            yield Bench(judge, str(task), asked)
    assert PlayedLauncher.up == 0


def test_an_honest_kernel_is_accepted_with_all_that_the_device_knows(bench: Bench) -> None:
    verdict = bench.verdict(kernel("honest"))
    assert verdict.verdict is Outcome.accepted, verdict.evidence
    conditions = verdict.conditions
    assert (conditions.device, conditions.driver, conditions.runner) == ("cuda: Played GPU", "580.1", "confined")
    assert conditions.compiler.startswith("NVRTC") and conditions.safety == "memcheck+racecheck+initcheck"
    assert len(verdict.workloads) == 5 and {"build", "safety", "trials"} <= set(verdict.stage_seconds)
    for result in verdict.workloads:
        assert result.speed is SpeedStatus.measured and result.bound is not None
        assert result.outside_seconds == pytest.approx(KERNEL_SECONDS)
        size = 4 * result.sizes["rows"] * result.sizes["cols"]
        assert (result.bound.read_bytes, result.bound.moved_bytes) == (size, 2 * size)
        assert result.bound.seconds == pytest.approx(PEAKS.launch + 2 * size / PEAKS.read)
        assert result.bound.sol is not None and 0.5 < result.bound.sol < 1
        (use,) = result.kernels
        assert (use.kernel, use.registers, use.spill_stores, use.occupancy) == ("honest", 24, 0, 1.0)
        assert result.baselines[0].speedup.low == pytest.approx(60 / 33, rel=0.01)
    assert not bench.asked and PlayedLauncher.up == 0


@pytest.mark.parametrize(
    ("name", "stage", "reason"),
    [
        ("wrong", Stage.compare, Reason.wrong),
        ("partial", Stage.compare, Reason.unwritten),
        ("racy", Stage.safety, Reason.unsafe),
        ("illegal", Stage.safety, Reason.illegal_access),
        ("unlaunchable", Stage.safety, Reason.launch_failed),
    ],
)
def test_a_faulty_kernel_is_rejected_for_what_it_does(bench: Bench, name: str, stage: Stage, reason: Reason) -> None:
    verdict = bench.verdict(kernel(name))
    assert (verdict.verdict, verdict.stage, verdict.reason) == (Outcome.rejected, stage, reason)
    if name == "racy":
        assert isinstance(verdict.evidence, SanitizerEvidence) and "kernel.cu:3" in verdict.evidence.lines[0]
    assert PlayedLauncher.up == 0


@pytest.mark.parametrize(
    ("name", "stage", "reason"),
    [
        ("illegal", Stage.run, Reason.illegal_access),
        ("endless", Stage.run, Reason.timed_out),
        ("unlaunchable", Stage.load, Reason.launch_failed),
    ],
)
def test_without_sanitizers_the_launcher_tells(bench: Bench, name: str, stage: Stage, reason: Reason) -> None:
    settings = Settings(baselines=(), effort=Sampling(2, 2), device=CUDA, safety=False, public_only=True)
    before = len(bench.asked)
    verdict = bench.judge.judge(bench.task, kernel(name), settings=settings)
    assert (verdict.stage, verdict.reason) == (stage, reason)
    assert isinstance(verdict.evidence, ProcessEvidence) and verdict.evidence.ending.startswith("ended: ")
    assert len(bench.asked) == before + 1
    assert verdict.conditions.safety == "none"


@pytest.mark.parametrize("name", ["late", "late_unseen"])
def test_a_call_that_ends_but_not_under_a_sanitizer_is_undecided(bench: Bench, name: str) -> None:
    before = len(bench.asked)
    verdict = bench.verdict(kernel(name))
    assert (verdict.verdict, verdict.stage) == (Outcome.undecided, Stage.safety)
    assert len(bench.asked) == before + 1 and PlayedLauncher.up == 0
    where = "a hidden workload" if name == "late_unseen" else "rows=3 cols=1000"
    told = author_view(verdict)
    assert str(told.evidence).endswith(f"memcheck+racecheck+initcheck did not finish within 120 s on {where}'")


@pytest.mark.parametrize("name", ["stored_in_bulk", "varying"])
def test_where_initcheck_alone_does_not_end_two_fills_take_its_place_and_the_verdict_says_so(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    asked: list[tuple[tuple[Tool, ...], int]] = []
    monkeypatch.setattr(PlayedInspectors, "asked", asked)
    verdict = bench.verdict(kernel(name))
    assert verdict.verdict is Outcome.accepted, verdict.evidence
    assert verdict.conditions.safety == "memcheck+racecheck; initcheck did not end, two fills instead"
    without = (Tool.memcheck, Tool.racecheck)  # after the first time, nobody waits for it again
    assert [tools for tools, _ in asked] == [tuple(Tool), without, without]


def test_a_result_that_follows_the_fill_was_computed_from_memory_that_nothing_had_written(bench: Bench) -> None:
    verdict = bench.verdict(kernel("leftover"))
    assert (verdict.verdict, verdict.stage, verdict.reason) == (Outcome.rejected, Stage.safety, Reason.unsafe)
    assert isinstance(verdict.evidence, SanitizerEvidence)
    assert "memory that nothing has written" in verdict.evidence.lines[0]
    assert PlayedLauncher.up == 0


def test_copies_that_do_not_fit_are_no_fault_of_the_candidate(bench: Bench) -> None:
    verdict = bench.verdict(kernel("large"))
    assert (verdict.verdict, verdict.stage) == (Outcome.undecided, Stage.safety)
    assert "did not finish with the device's memory" in str(verdict.evidence)


def test_nothing_takes_the_place_of_racecheck(bench: Bench) -> None:
    verdict = bench.verdict(kernel("never_raced"))
    assert (verdict.verdict, verdict.stage) == (Outcome.undecided, Stage.safety)
    assert "racecheck did not finish" in str(verdict.evidence)


def test_a_call_that_never_ends_is_rejected_for_that_although_the_sanitizers_cannot_tell(bench: Bench) -> None:
    verdict = bench.verdict(kernel("endless"))
    assert (verdict.verdict, verdict.stage, verdict.reason) == (Outcome.rejected, Stage.run, Reason.timed_out)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[tuple[Tool, ...], int]]:
    """What the sanitizers looked at, where all that weighs more than 2000 bytes is heavy."""
    found: list[tuple[tuple[Tool, ...], int]] = []
    monkeypatch.setattr(PlayedInspectors, "asked", found)
    monkeypatch.setattr(workshop, "USUALLY_RACECHECKED", 2000)
    return found


def test_races_on_heavy_workloads_are_looked_for_on_a_lighter_hidden_one(
    bench: Bench, asked: list[tuple[tuple[Tool, ...], int]]
) -> None:
    verdict = bench.verdict(kernel("honest"))
    assert verdict.verdict is Outcome.accepted and len(verdict.workloads) == 5
    assert verdict.conditions.safety == "memcheck+initcheck, racecheck on a lighter workload"
    (first, light), (second, public), (third, _) = asked
    assert (first, second, third) == (tuple(Tool), QUICK_TOOLS, QUICK_TOOLS)
    assert public == 3000 and 8 * light <= 2000


def test_a_race_there_says_nothing_of_its_size_and_is_found_again(
    bench: Bench, asked: list[tuple[tuple[Tool, ...], int]]
) -> None:
    verdict = bench.verdict(kernel("racy"))
    assert (verdict.verdict, verdict.reason, verdict.failed_on_hidden) == (Outcome.rejected, Reason.unsafe, True)
    assert author_view(verdict).evidence is None and verdict.certificate is not None
    issued = certificate.read(certificate.find(verdict.certificate))
    (light,) = issued.lighter_workloads
    assert light.hidden and [math.prod(light.size_map.values())] == [elements for _, elements in asked]
    again = replay(issued)
    assert again.same is True and again.verdict.failed_on_hidden
    assert asked[0] == asked[1]


def test_without_a_workload_that_is_light_enough_races_are_not_looked_for_and_that_is_said(
    bench: Bench, asked: list[tuple[tuple[Tool, ...], int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workshop, "MOST_RACECHECKED", 100)
    assert bench.verdict(kernel("racy")).conditions.safety == "memcheck+initcheck"
    assert [tools for tools, _ in asked] == [QUICK_TOOLS] * 2


def test_on_public_workloads_alone_no_hidden_one_is_looked_at(
    bench: Bench, asked: list[tuple[tuple[Tool, ...], int]]
) -> None:
    settings = Settings(baselines=(), effort=Sampling(2, 2), device=CUDA, public_only=True)
    verdict = bench.judge.judge(bench.task, kernel("racy"), settings=settings)
    assert verdict.verdict is Outcome.accepted and verdict.conditions.safety == "memcheck+initcheck"
    assert asked == [(QUICK_TOOLS, 3000)]


@pytest.mark.parametrize(
    ("name", "status"),
    [
        ("liar", SpeedStatus.clocks_disagree),
        ("early", SpeedStatus.clocks_disagree),
        ("instant", SpeedStatus.investigate),
    ],
)
def test_a_time_that_cannot_be_is_no_speed(bench: Bench, name: str, status: SpeedStatus) -> None:
    verdict = bench.verdict(kernel(name))
    assert verdict.verdict is Outcome.accepted
    assert {result.speed for result in verdict.workloads} == {status}
    assert all(result.bound is not None and result.bound.sol is None for result in verdict.workloads)


def test_what_does_not_build_is_told_with_its_line(bench: Bench) -> None:
    verdict = bench.verdict(kernel("broken", "2 * x[i]", "2 * y[i]"))
    assert verdict.reason is Reason.does_not_build and "kernel.cu(3)" in str(verdict.evidence)


def test_a_plan_that_fails_on_hidden_sizes_tells_nothing_of_them(bench: Bench) -> None:
    public_only = 'if x.numel() not in (20000, 3000): raise ValueError(f"sizes {x.shape}")\n    return'
    verdict = bench.verdict(kernel("choosy", "return", public_only))
    assert (verdict.verdict, verdict.failed_on_hidden) == (Outcome.rejected, True)
    told = author_view(verdict)
    assert told.evidence is None and told.hidden.failed and "sizes" in str(verdict.evidence)


def test_a_host_candidate_is_refused(bench: Bench) -> None:
    with pytest.raises(CandidateError, match="runs on cpu"):
        bench.verdict(Candidate("cpp", "void kernel() {}", "host.cpp"))


def test_its_certificate_names_the_gpu_and_replays_there(bench: Bench) -> None:
    verdict = bench.verdict(kernel("wrong"))
    assert verdict.certificate is not None
    issued = certificate.read(Path(certificate.folder() / f"{verdict.certificate}.json"))
    environment = issued.environment
    assert (issued.settings.device, environment.device, environment.driver) == ("cuda:0", "cuda: Played GPU", "580.1")
    assert environment.compiler.startswith("NVRTC")
    outcome = replay(issued)
    assert outcome.same is True and outcome.device == "the same class" and outcome.artefact == "the same bytes"
