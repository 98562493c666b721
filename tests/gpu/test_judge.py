"""The judge on a GPU, from source to verdict: honest kernels are accepted, exploits earn nothing, faults are named."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kernelwright.contracts import Candidate
from kernelwright.contracts.registry import read_source
from kernelwright.devices.names import Device
from kernelwright.judge.controller import Judge
from kernelwright.judge.gpu.sanitize import sanitizer
from kernelwright.judge.settings import Settings
from kernelwright.judge.timing.measure import Sampling
from kernelwright.judge.verdict import Outcome, Reason, SanitizerEvidence, SpeedStatus, Stage, Verdict
from tests.gpu.harness import HERE, KERNELS
from tests.gpu.test_exploits import EXPLOITS, FASTER, NO_FASTER, ONLY_RIGHT, REJECTED

TASK = str(HERE / "rmsnorm_gpu.py")
HONEST = sorted(path.name for path in KERNELS.iterdir() if path.is_dir())
WRONG = {Reason.wrong, Reason.imprecise, Reason.nan_or_inf, Reason.unwritten}
needs_sanitizer = pytest.mark.skipif(sanitizer() is None, reason="compute-sanitizer is not installed")

STEP_TASK = '''
"""Adds to a tensor in place and counts the positive elements."""
from kernelwright.tasks import Task, tensor

def reference(total, x):
    total += x
    return (x > 0).sum(-1)

task = Task(reference, inputs={"total": tensor("rows", "cols"), "x": tensor("rows", "cols")}, inout=("total",),
            outputs=("count",), public=[{"rows": 10, "cols": 300}], hidden={"rows": (3, 70), "cols": (20, 2000)})
'''
STEP = """
extern "C" __global__ void step(float* total, const float* x, long long* count, int cols) {
  __shared__ int found;
  if (threadIdx.x == 0) found = 0;
  __syncthreads();
  for (int i = threadIdx.x; i < cols; i += blockDim.x) {
    long long at = (long long)blockIdx.x * cols + i;
    if (x[at] > 0) atomicAdd(&found, 1);
    total[at] += x[at];
  }
  __syncthreads();
  if (threadIdx.x == 0) count[blockIdx.x] = found;
}
/* plan.py
import kw


def plan(total, x, count):
    return kw.plan(kw.launch("step", x.shape[0], 128, total, x, count, kw.i32(x.shape[1])))
*/
"""
SCALED_TASK = '''
"""A product with a constant weight, in two dtypes."""
from kernelwright.tasks import Task, normal, tensor

def reference(x, weight):
    return x * weight

task = Task(reference, inputs={"x": tensor("n"), "weight": tensor("n", draw=normal(1.0, 0.2))}, constant=("weight",),
            dtypes=("float32", "bfloat16"), public=[{"n": 1000}], hidden={"n": (100, 3000)})
'''
SCALED = """
#include <cuda_bf16.h>
template <class T> __global__ void scaled(const T* x, const T* weight, T* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = T(float(x[i]) * float(weight[i]));
}
/* plan.py
import kw

TYPES = {"float32": "float", "bfloat16": "__nv_bfloat16"}


def plan(x, weight, out):
    n = x.numel()
    return kw.plan(kw.launch(f"scaled<{TYPES[x.dtype]}>", (n + 127) // 128, 128, x, weight, out, kw.i32(n)))
*/
"""


@pytest.fixture(scope="module")
def judge() -> Iterator[Judge]:
    """Quick: no sanitizers, and few trials."""
    settings = Settings(baselines=("eager",), effort=Sampling(6, 6), device=Device("cuda"), safety=False)
    with Judge(settings) as one:
        yield one


def carefully(judge: Judge, candidate: Candidate) -> Verdict:
    """With sanitizers, on the public workloads, by the judge that is up."""
    settings = Settings(baselines=(), effort=Sampling(6, 6), device=Device("cuda"), public_only=True)
    return judge.judge(TASK, candidate, settings=settings)


def accepted(verdict: Verdict) -> Verdict:
    assert verdict.verdict is Outcome.accepted, (verdict.reason, verdict.evidence)
    return verdict


def believed(judge: Judge, candidate: Candidate) -> Verdict:
    """Accepted, with times that both clocks tell. On a busy host the one outside may need another judging for that."""
    for _ in range(3):
        verdict = accepted(judge.judge(TASK, candidate))
        assert SpeedStatus.investigate not in {result.speed for result in verdict.workloads}
        if SpeedStatus.clocks_disagree not in {result.speed for result in verdict.workloads}:
            return verdict
    pytest.fail("the clocks disagree on an honest kernel time and again")


@pytest.mark.gpu
@pytest.mark.parametrize("name", HONEST)
def test_an_honest_kernel_is_accepted(name: str, judge: Judge) -> None:
    verdict = believed(judge, read_source(KERNELS / name))
    assert verdict.conditions.driver and verdict.conditions.device.startswith("cuda: ")
    assert len(verdict.workloads) == 5
    for result in verdict.workloads:
        assert result.seconds and result.bound and result.seconds > result.bound.impossible_below
        assert result.outside_seconds is not None and result.deterministic is not None
        assert all(use.registers > 0 and use.occupancy > 0 for use in result.kernels) and result.kernels


def expected(name: str) -> set[Reason]:
    named = {"device_fault": {Reason.crashed}, "wrong": WRONG}
    return {reason for word in REJECTED[name] for reason in named.get(word) or {Reason(word)}}


@pytest.mark.gpu
@pytest.mark.parametrize("name", sorted(REJECTED))
def test_an_exploit_is_rejected_for_what_it_does(name: str, judge: Judge) -> None:
    verdict = judge.judge(TASK, read_source(EXPLOITS / f"{name}.cu"))
    assert verdict.verdict is Outcome.rejected, verdict.evidence
    assert verdict.reason in expected(name), verdict.evidence


@pytest.mark.gpu
@pytest.mark.parametrize("name", NO_FASTER)
def test_an_exploit_is_no_faster_than_its_twin(name: str, judge: Judge) -> None:
    settings = Settings(
        baselines=("eager",), effort=Sampling(20, 20), device=Device("cuda"), safety=False, public_only=True
    )
    twin = EXPLOITS / f"twin_{name}.cu"
    honest = accepted(
        judge.judge(TASK, read_source(twin if twin.exists() else KERNELS / "rmsnorm_vector"), settings=settings)
    )
    cheat = judge.judge(TASK, read_source(EXPLOITS / f"{name}.cu"), settings=settings)
    if cheat.verdict is not Outcome.accepted:
        return
    for one, other in zip(cheat.workloads, honest.workloads, strict=True):
        assert one.seconds and other.seconds and one.seconds > FASTER * other.seconds


@pytest.mark.gpu
@pytest.mark.parametrize("name", ONLY_RIGHT)
def test_an_exploit_finds_nothing_to_use(name: str, judge: Judge) -> None:
    """Accepted where every call was right; with more blocks than multiprocessors some of them are not."""
    verdict = judge.judge(TASK, read_source(EXPLOITS / f"{name}.cu"))
    assert verdict.verdict is Outcome.accepted or verdict.reason in {*WRONG, Reason.timed_out}, verdict.reason


@pytest.mark.gpu
def test_tensors_that_change_in_place_and_whole_numbers(judge: Judge, tmp_path: Path) -> None:
    task = tmp_path / "step.py"
    task.write_text(STEP_TASK)
    accepted(judge.judge(str(task), Candidate("cuda", STEP, "step.cu")))
    late = Candidate("cuda", STEP.replace("x[at] > 0", "x[at] > 0.01f"), "late.cu")
    assert judge.judge(str(task), late).reason is Reason.wrong


@pytest.mark.gpu
def test_constants_and_several_dtypes(judge: Judge, tmp_path: Path) -> None:
    task = tmp_path / "scaled.py"
    task.write_text(SCALED_TASK)
    verdict = accepted(judge.judge(str(task), Candidate("cuda", SCALED, "scaled.cu")))
    assert {result.dtype for result in verdict.workloads} >= {"float32", "bfloat16"}


@pytest.mark.gpu
@pytest.mark.slow
@needs_sanitizer
@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("faulty/race.cu", "racecheck"),
        ("faulty/uninitialised.cu", "initcheck"),
        ("exploits/past_end_one.cu", "memcheck"),
    ],
)
def test_the_sanitizers_reject_with_a_line(path: str, words: str, judge: Judge) -> None:
    verdict = carefully(judge, read_source(HERE / path))
    assert (verdict.stage, verdict.reason) == (Stage.safety, Reason.unsafe), verdict.evidence
    assert isinstance(verdict.evidence, SanitizerEvidence)
    assert any(line.startswith("kernel.cu:") and words in line for line in verdict.evidence.lines)


@pytest.mark.gpu
@pytest.mark.slow
@needs_sanitizer
@pytest.mark.parametrize("name", ["rmsnorm_vector", "rmsnorm_split"])
def test_the_sanitizers_let_an_honest_kernel_pass(name: str, judge: Judge) -> None:
    verdict = accepted(carefully(judge, read_source(KERNELS / name)))
    assert verdict.conditions.safety == "memcheck+racecheck+initcheck"


@pytest.mark.gpu
def test_the_command_and_its_replay() -> None:
    pytest.importorskip("typer")

    def run(*arguments: str) -> dict[str, object]:
        command = [sys.executable, "-m", "kernelwright.cli.main", *arguments, "--json"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr
        found: dict[str, object] = json.loads(done.stdout)
        return found

    options = ["--baseline", "eager", "--trials", "6", "--no-safety", "--public-only", "--view", "auditor"]
    (verdict,) = run("judge", TASK, str(KERNELS / "rmsnorm_vector"), *options)["results"]  # type: ignore[misc]
    assert (verdict["verdict"], verdict["contract"]) == ("accepted", "cuda")
    told = run("replay", verdict["certificate"])["replay"]
    assert isinstance(told, dict) and told["same"] is True and told["device"] == "the same class"
