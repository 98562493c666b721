"""Baselines on a GPU: right by the oracle's own comparison, and timed by the same two clocks as a candidate."""

from __future__ import annotations

from functools import partial

import pytest

from kernelwright.devices.names import Device
from kernelwright.judge.controller import Judge
from kernelwright.judge.gpu.baselines import GpuBaselineProcess
from kernelwright.judge.gpu.clocks import disagreement
from kernelwright.judge.oracle_client import OpenTask, WorkloadSpec
from kernelwright.judge.settings import Settings
from kernelwright.judge.timing.measure import Sampling
from kernelwright.judge.verdict import Outcome
from kernelwright.proposers.model import Operator, Request
from kernelwright.proposers.templates import make
from kernelwright.tasks.model import Workload
from kernelwright.tasks.resolve import resolve
from tests.gpu.harness import KERNELS, Bench, signature, with_descriptors

SIZE = (1024, 4096)


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["eager", pytest.param("compile", marks=pytest.mark.compile)])
def test_a_baseline_is_right_and_both_clocks_agree(name: str, bench: Bench) -> None:
    oracle = bench.oracle(SIZE)
    oracle.load()
    task = OpenTask("rmsnorm", "rmsnorm", 6, (), ())
    with GpuBaselineProcess(name, bench.helpers) as baseline:
        for size in (SIZE, (33, 1027), SIZE):
            bench.oracle(size).load()
            spec = WorkloadSpec(Workload((("rows", size[0]), ("cols", size[1]))), signature(*size))
            with_descriptors(bench.oracle(size), partial(baseline.open, task, spec))
            baseline.write()
            assert bench.oracle(size).complaint() is None
        for _ in range(20):
            oracle.load()
            baseline.time()
        timings = baseline.timings
    assert len(timings) == 20 and disagreement(timings, bench.empty) is None
    candidate = bench.judge(KERNELS / "rmsnorm_vector", [SIZE], trials=20)
    mine = sorted(timing.device for timing in timings)[10]
    assert mine > 0.8 * candidate.seconds(SIZE)


@pytest.mark.gpu
@pytest.mark.compile
def test_a_backward_compiled_as_training_has_it_is_right() -> None:
    names = ("compile-default", "compile-training")
    settings = Settings(names, effort=Sampling(6, 6), safety=False, public_only=True, device=Device("cuda"))
    task = "linear:backward@rows=64,features=128,units=10"
    candidate = make(resolve(task, "cuda"), "cuda").propose(Request(Operator.fresh, 1, 0))[0].candidate
    with Judge(settings) as judge:
        verdict = judge.judge(task, candidate)
    assert verdict.verdict is Outcome.accepted, verdict.evidence
    assert [entry.baseline for entry in verdict.workloads[0].baselines] == [*names]


@pytest.mark.gpu
def test_tf32_is_shown_beside_eager_and_nothing_is_claimed_over_it() -> None:
    names = ("eager", "eager-tf32", "sdpa-flash", "cudnn-benchmark")
    settings = Settings(names, effort=Sampling(6, 6), safety=False, public_only=True, device=Device("cuda"))
    task = "linear@rows=2048,features=2048,units=2048"
    candidate = make(resolve(task, "cuda"), "cuda").propose(Request(Operator.fresh, 1, 0))[0].candidate
    with Judge(settings) as judge:
        verdict = judge.judge(task, candidate)
    assert verdict.verdict is Outcome.accepted, verdict.evidence
    (result,) = verdict.workloads
    times = {one.baseline: one.seconds for one in result.baselines}
    assert set(times) == {"eager", "eager-tf32", "cudnn-benchmark"}
    assert times["eager-tf32"] < times["eager"]
    assert result.best_baseline is not None and result.best_baseline.baseline != "eager-tf32"
    assert [line.partition(":")[0] for line in verdict.baselines_left_out] == ["sdpa-flash"]
