"""What a GPU allows: the bound from measured peaks, the limit of belief from theory, and the score in between."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernelwright.judge.gpu.limits import limits, sol_score
from kernelwright.tasks.cost import Cost
from tests.gpu.played import GPU, PEAKS

MOVES = Cost(read=1 << 30, written=1 << 30, operations=0)
MULTIPLIES = Cost(read=1 << 20, written=1 << 20, operations=10**15)


def test_moving_is_bounded_by_the_measured_bandwidth_and_reading_by_the_theoretical_one() -> None:
    found = limits(MOVES, "float32", GPU, PEAKS)
    assert found.bound == pytest.approx(PEAKS.launch + (2 << 30) / PEAKS.read)
    assert found.impossible_below == pytest.approx(0.9 * (1 << 30) / (2 * 3201e6 * 6016 / 8))


def test_products_are_bounded_by_their_format_and_believed_up_to_the_fastest_one() -> None:
    in_float32 = limits(MULTIPLIES, "float32", GPU, PEAKS)
    in_bfloat16 = limits(MULTIPLIES, "bfloat16", GPU, PEAKS)
    assert in_float32.bound == pytest.approx(PEAKS.launch + 10**15 * 3 / PEAKS.tf32)
    assert in_float32.bound > 5 * in_bfloat16.bound
    assert in_float32.impossible_below == in_bfloat16.impossible_below
    assert in_float32.impossible_below == pytest.approx(0.9 * 10**15 / (8192 * 132 * 1980e6))
    assert in_float32.impossible_below < in_bfloat16.bound / 2


def test_an_unknown_gpu_is_held_to_its_bandwidth_alone() -> None:
    unknown = replace(GPU, capability=(99, 0))
    found = limits(MULTIPLIES, "float32", unknown, PEAKS)
    assert found.impossible_below == pytest.approx(0.9 * MULTIPLIES.read / GPU.theoretical_bandwidth)
    assert limits(MULTIPLIES, "float32", replace(unknown, bus_bits=0), PEAKS).impossible_below == 0


def test_the_score_is_a_half_at_the_baseline_and_one_at_the_bound() -> None:
    assert sol_score(8.0, 8.0, 2.0) == 0.5
    assert sol_score(2.0, 8.0, 2.0) == sol_score(1.0, 8.0, 2.0) == 1.0
    assert sol_score(5.0, 2.0, 2.0) is None


@given(st.floats(1e-6, 1), st.floats(1.001, 100), st.floats(1, 100), st.floats(1.0001, 2))
def test_a_faster_kernel_scores_more(bound: float, baseline: float, kernel: float, slower: float) -> None:
    fast, slow = (sol_score(seconds, bound * baseline, bound) for seconds in (bound * kernel, bound * kernel * slower))
    assert fast is not None and slow is not None and 0 < slow < fast <= 1
