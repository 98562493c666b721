"""What holds a kernel back, from numbers alone."""

from __future__ import annotations

import pytest

from kernelwright.insight.bottleneck import Limit, Peaks, bottleneck

PEAKS = Peaks(bandwidth=4e12, operations=5e13, launch=3e-6)


@pytest.mark.parametrize(
    ("seconds", "moved", "operations", "bound", "limit"),
    [
        (4e-6, 1_000, 0, None, Limit.launching),
        (100e-6, 300_000_000, 0, None, Limit.moving),
        (100e-6, 1_000_000, 4_000_000_000, None, Limit.computing),
        (100e-6, 1_000_000, 1_000_000, None, Limit.waiting),
        (100e-6, 390_000_000, 0, 95e-6, Limit.bound),
        (100e-6, 1_000_000, 5_000_000_000, 100e-6, Limit.computing),  # tensor cores may still be faster
    ],
)
def test_the_limit(seconds: float, moved: int, operations: int, bound: float | None, limit: Limit) -> None:
    found = bottleneck(seconds, moved, operations, PEAKS, bound)
    assert found.limit is limit and found.sentence
    assert found.bandwidth == pytest.approx(moved / seconds) and 0 <= found.launching <= 1


def test_unknown_peaks_are_not_guessed() -> None:
    found = bottleneck(1e-3, 1 << 20, 1 << 20, Peaks())
    assert found.of_bandwidth is None and found.of_operations is None and found.of_bound is None
