"""What a set of times says: medians, paired speedups with their intervals, and the noise that a device may
show.

Everything rests on order statistics, so a single absurd time moves nothing (a mean would collapse).

The bootstrap is computed, not simulated. The median of a resample of n values is one of the n values, and
the chance that it is at most the k-th smallest is a binomial tail that depends on n and k alone. The
percentile interval is therefore a pair of order statistics: what infinitely many resamples would give,
without a seed, without simulation noise, and in microseconds. For an even n the lower end uses the lower of
a resample's two middle values and the upper end the upper one, which errs on the wide side.

With fewer than 7 pairs the interval runs from the smallest to the largest ratio; its coverage passes 90%
from 8 pairs on.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from kernelwright.devices.names import Kind

COVERAGE = 0.95
CPU_BAND = 0.05
GPU_LONG, GPU_LONG_BAND = 50e-6, 0.01
GPU_SHORT, GPU_SHORT_BAND = 10e-6, 0.03
GPU_TINY_SECONDS = 0.2e-6
# A speedup whose interval is wider than this, upper end over lower end, is not decided (docs/decisions/0028). Of 225
# claims in certificates of both devices one is wider, of six trials; a quiet machine gives 1.03 (GPU) to 1.12 (CPU).
WIDEST = 1.5


@dataclass(frozen=True)
class Interval:
    """A median with the ends of its 95% interval."""

    low: float
    mid: float
    high: float


@dataclass(frozen=True)
class Band:
    """The ratios that a baseline measured against itself may show on a device before its noise is too
    large.
    """

    low: float
    high: float


def median(values: Sequence[float]) -> float:
    """The middle value, or the mean of the two middle ones."""
    _require_times(values)
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else 0.5 * (ordered[middle - 1] + ordered[middle])


def speedup(baseline: Sequence[float], candidate: Sequence[float]) -> Interval:
    """How many times faster the candidate is, from times that were taken in the same blocks, pair by pair.

    The middle of an even number of ratios is their geometric mean, so that swapping the arguments inverts the
    interval exactly.
    """
    if len(baseline) != len(candidate):
        raise ValueError(f"{len(baseline)} baseline times cannot be paired with {len(candidate)} candidate times")
    _require_times(baseline)
    _require_times(candidate)
    ratios = sorted(b / c for b, c in zip(baseline, candidate, strict=True))
    n = len(ratios)
    rank = _lower_rank(n)
    mid = ratios[n // 2] if n % 2 else math.sqrt(ratios[n // 2 - 1]) * math.sqrt(ratios[n // 2])
    low, high = ratios[rank - 1], ratios[n - rank]
    return Interval(low, min(max(mid, low), high), high)


def median_interval(values: Sequence[float]) -> Interval:
    """The median of times with the ends of its interval."""
    _require_times(values)
    ordered = sorted(values)
    rank = _lower_rank(len(ordered))
    return Interval(ordered[rank - 1], median(ordered), ordered[len(ordered) - rank])


def against_itself(times: Sequence[float]) -> Interval:
    """The A/A interval: the speedup of a baseline over itself, from its own times in the order they were
    taken.

    Neighbours are paired, and every other pair is turned round, so that a steady drift cancels.
    """
    if len(times) < 2:
        raise ValueError("a baseline needs at least two times to be compared with itself")
    first, second = list(times[0 : len(times) - 1 : 2]), list(times[1::2])
    for pair in range(1, len(first), 2):
        first[pair], second[pair] = second[pair], first[pair]
    return speedup(first, second)


def band(device_kind: Kind, seconds: float) -> Band:
    """The band for a device and a baseline that takes this long."""
    if not seconds > 0 or math.isinf(seconds):
        raise ValueError(f"a duration must be positive and finite, not {seconds}")
    if device_kind == "cpu":
        width = CPU_BAND
    elif device_kind == "cuda":
        if seconds > GPU_LONG:
            width = GPU_LONG_BAND
        elif seconds >= GPU_SHORT:
            width = GPU_SHORT_BAND
        else:
            width = GPU_TINY_SECONDS / seconds
    else:
        raise ValueError(f"no band is known for a device of kind {device_kind!r}: it is 'cpu' or 'cuda'")
    return Band(max(0.0, 1.0 - width), 1.0 + width)


def inside(interval: Interval, allowed: Band) -> bool:
    """Whether the whole interval lies in the band."""
    return allowed.low <= interval.low and interval.high <= allowed.high


def depends_little(allowed: Band, mid: float, ends: tuple[float, float]) -> bool:
    """Whether a ratio stays inside the band around it where what it was computed from is at its ends."""
    return allowed.low * mid <= ends[0] and ends[1] <= allowed.high * mid


def too_wide(interval: Interval) -> bool:
    """Whether an interval says too little to be called a measurement."""
    return interval.high > WIDEST * interval.low


def _require_times(values: Sequence[float]) -> None:
    """Refuses what no clock can have read."""
    if not values:
        raise ValueError("no times were given")
    if not all(value > 0 and math.isfinite(value) for value in values):
        raise ValueError("times must be positive and finite")


@lru_cache(maxsize=1024)
def _lower_rank(n: int) -> int:
    """The rank (from 1) of the lower end: the least that a resample's median stays on or below often
    enough.
    """
    middle = (n + 1) // 2
    tail = (1.0 - COVERAGE) / 2.0
    ranks = range(1, middle)
    return 1 + bisect.bisect_right(ranks, tail, key=lambda k: _binomial_tail(n, k / n, middle))


def _binomial_tail(n: int, p: float, at_least: int) -> float:
    log_p, log_q = math.log(p), math.log1p(-p)
    whole = math.lgamma(n + 1)
    return math.fsum(
        math.exp(whole - math.lgamma(i + 1) - math.lgamma(n - i + 1) + i * log_p + (n - i) * log_q)
        for i in range(at_least, n + 1)
    )
