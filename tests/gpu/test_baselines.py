"""Baselines on a GPU: right by the oracle's own comparison, and timed by the same two clocks as a candidate."""

from __future__ import annotations

from functools import partial

import pytest

from kernelwright.judge.gpu.baselines import GpuBaselineProcess
from kernelwright.judge.gpu.clocks import disagreement
from kernelwright.judge.oracle.client import OpenTask, Posed
from kernelwright.tasks.model import Workload
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
            posed = Posed(Workload((("rows", size[0]), ("cols", size[1]))), signature(*size))
            with_descriptors(bench.oracle(size), partial(baseline.open, task, posed))
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
