"""What a GPU allows a workload: the bound at measured peaks, the time below which no claim is believed, and the score
in between."""

from __future__ import annotations

from dataclasses import dataclass

from kernelwright.devices.nvidia import Gpu
from kernelwright.devices.peaks_nvidia import GpuPeaks
from kernelwright.judge.verdict import BoundValue
from kernelwright.tasks.cost import Cost

BELIEVED = 0.9  # of a theoretical limit; clocks are rounded, and a boost may pass the stated maximum a little
# Dense products per multiprocessor and cycle, two operations a term, of the fastest unit of each architecture
# (4-bit where there is such, else 8-bit, else half precision). A GPU that is not here is held to its bandwidth alone.
FASTEST_PER_CYCLE = {
    (7, 0): 1024,
    (7, 2): 2048,
    (7, 5): 4096,
    (8, 0): 8192,
    (8, 6): 4096,
    (8, 7): 8192,
    (8, 9): 4096,
    (9, 0): 8192,
    (10, 0): 32768,
    (10, 3): 32768,
    (12, 0): 8192,
}


@dataclass(frozen=True)
class Limits:
    """`bound`: launching, and the longer of moving and computing at measured peaks. `impossible_below`: reading what
    must be read at the theoretical bandwidth, or multiplying at the theoretical rate of the fastest unit there is,
    since products of a wide format can honestly be put together from those of a narrow one."""

    cost: Cost
    bound: float
    impossible_below: float

    def value(self, seconds: float, fastest_baseline: float | None) -> BoundValue:
        return BoundValue(
            seconds=self.bound,
            impossible_below=self.impossible_below,
            read_bytes=self.cost.read,
            moved_bytes=self.cost.moved,
            operations=self.cost.operations,
            sol=None if fastest_baseline is None else sol_score(seconds, fastest_baseline, self.bound),
        )


def bound(cost: Cost, dtype: str, peaks: GpuPeaks) -> float:
    moving = cost.moved / max(peaks.copy, peaks.read)
    computing = cost.operations / peaks.operations(dtype)
    return peaks.launch + max(moving, computing)


def limits(cost: Cost, dtype: str, gpu: Gpu, peaks: GpuPeaks) -> Limits:
    reading = cost.read / gpu.theoretical_bandwidth if gpu.theoretical_bandwidth else 0.0
    rate = FASTEST_PER_CYCLE.get(gpu.capability, 0) * gpu.multiprocessors * gpu.max_sm_mhz * 1e6
    multiplying = cost.operations / rate if rate else 0.0
    return Limits(cost, bound(cost, dtype, peaks), BELIEVED * max(reading, multiplying))


def sol_score(seconds: float, baseline: float, bound: float) -> float | None:
    """0.5 at the baseline, 1 at the bound; None where the baseline is at the bound already."""
    if baseline <= bound:
        return None
    return 1.0 / (1.0 + max(seconds - bound, 0.0) / (baseline - bound))
