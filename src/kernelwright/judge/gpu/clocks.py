"""Holds the device's clock against the clock outside.

Events are kept by the driver in memory that device code might reach, so a time counts only where a process outside
saw the same. Both clocks are read on the same calls, and what an empty call costs on each comes from a launcher of
our own that never met a candidate.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kernelwright.judge.gpu.client import LauncherProcess, Timing
from kernelwright.judge.statistics import median

BLOCK_SECONDS = 2e-3
AGREEMENT = 0.05
RESOLUTION = 2e-6  # between processes the way through the gate differs by about a microsecond
EMPTY_TRIALS = 40
WARM_UP = 5


@dataclass(frozen=True)
class Disagreement:
    """A block whose calls took longer outside than the device said. Seconds are net of an empty call."""

    calls: int
    device: float
    outside: float

    def describe(self) -> str:
        return (
            f"{self.calls} calls took {self.outside * 1e6:.2f} us each by the clock outside "
            f"and {self.device * 1e6:.2f} us by the device's events"
        )


def empty_call(launcher: LauncherProcess, word: int, trials: int = EMPTY_TRIALS) -> Timing:
    """What a call that does nothing takes on both clocks, in a launcher without a candidate."""
    timings = [launcher.trial(word, 5.0, empty=True) for _ in range(WARM_UP + trials)][WARM_UP:]
    return Timing(median([t.device for t in timings]), median([t.outside for t in timings]))


def disagreement(timings: Sequence[Timing], empty: Timing) -> Disagreement | None:
    """The first block in which the clocks differ by more than 5% and more than what the outer one resolves.

    A block has at least 2 ms of work or, of short calls, all there are. Within one, medians are compared, so that an
    interrupt of the host does not reject an honest kernel. Calls below 40 us are held to 2 us instead of 5%.
    """
    for block in _blocks(timings):
        device = median([t.device for t in block]) - empty.device
        outside = median([t.outside for t in block]) - empty.outside
        if abs(outside - device) > max(AGREEMENT * max(device, outside), RESOLUTION):
            return Disagreement(len(block), device, outside)
    return None


def _blocks(timings: Sequence[Timing]) -> list[list[Timing]]:
    blocks: list[list[Timing]] = [[]]
    seconds = 0.0
    for timing in timings:
        if seconds >= BLOCK_SECONDS:
            blocks.append([])
            seconds = 0.0
        blocks[-1].append(timing)
        seconds += timing.device
    if seconds < BLOCK_SECONDS and len(blocks) > 1:
        blocks[-2].extend(blocks.pop())
    return [block for block in blocks if block]
