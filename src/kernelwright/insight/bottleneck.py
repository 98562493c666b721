"""What holds a kernel back, from its time and what the workload needs at least: launching, moving, computing, waiting.

A pure function of numbers, so that prompts, reports and tests say the same of the same kernel.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

NEAR = 0.9  # of the bound's speed: little is left to gain
LAUNCHING = 0.4  # of the time: what the kernel does hardly matters any more
BUSY = 0.6  # of a peak: the unit is what limits


class Limit(StrEnum):
    """`waiting`: neither memory nor arithmetic is busy, so that latency, imbalance or barriers are."""

    bound = "bound"
    launching = "launching"
    moving = "moving"
    computing = "computing"
    waiting = "waiting"


@dataclass(frozen=True)
class Peaks:
    """What the device reaches: bytes and operations a second, and the seconds that an empty launch takes."""

    bandwidth: float | None = None
    operations: float | None = None
    launch: float = 0.0


@dataclass(frozen=True)
class Bottleneck:
    """Shares are of the kernel's time or of a peak; None where the peak is not known."""

    limit: Limit
    bandwidth: float
    operations: float
    of_bandwidth: float | None
    of_operations: float | None
    of_bound: float | None
    launching: float

    @property
    def sentence(self) -> str:
        return _SENTENCES[self.limit]


_SENTENCES = {
    Limit.bound: "It is near the bound; only doing less work, or none twice, can help.",
    Limit.launching: "Most of the time is launching: fewer launches, or overlapping ones, matter more than kernels.",
    Limit.moving: "Memory is busy: move fewer bytes (fuse, keep values in registers, never read anything twice).",
    Limit.computing: "Arithmetic is busy: use a faster unit, or fewer operations.",
    Limit.waiting: "Neither memory nor arithmetic is busy: too little work in flight, barriers, imbalance, or a tail.",
}


def bottleneck(seconds: float, moved: int, operations: int, peaks: Peaks, bound: float | None = None) -> Bottleneck:
    bandwidth, rate = moved / seconds, operations / seconds
    of_bandwidth = bandwidth / peaks.bandwidth if peaks.bandwidth else None
    of_operations = rate / peaks.operations if peaks.operations else None
    of_bound = bound / seconds if bound else None
    launching = min(1.0, peaks.launch / seconds)
    arithmetic = (of_operations or 0.0) > (of_bandwidth or 0.0)  # and a faster unit may beat that bound
    if of_bound is not None and of_bound >= NEAR and not arithmetic:
        limit = Limit.bound
    elif launching >= LAUNCHING:
        limit = Limit.launching
    elif (of_operations or 0.0) >= max(BUSY, of_bandwidth or 0.0):
        limit = Limit.computing
    elif (of_bandwidth or 0.0) >= BUSY:
        limit = Limit.moving
    else:
        limit = Limit.waiting
    return Bottleneck(limit, bandwidth, rate, of_bandwidth, of_operations, of_bound, launching)
