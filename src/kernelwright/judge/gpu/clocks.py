"""Holds the device's clock against two clocks outside.

Events are kept by the driver in memory that device code might reach, and so is the word in the gate that says done. So
a time counts only where two clocks of this process saw the same: to the word in the gate, which is fine, and to the
launcher's word on its channel, which is coarse and which no device code can bring forward. What an empty call costs on
each comes from a launcher of our own that never met a candidate, measured again and again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from kernelwright.judge.gpu.client import LauncherProcess, Timing
from kernelwright.judge.timing.statistics import median

BLOCK_SECONDS = 2e-3
AGREEMENT = 0.05
RESOLUTION = 2e-6  # between processes the way through the gate differs by about a microsecond
ANSWER_RESOLUTION = 20e-6  # a call, of the way over the channel
GATE_CALLS = 3  # at least, in a block of the gate, so that one interrupt does not move the median
ANSWER_CALLS = 8  # at least, in a block of answers: an interrupt is told from a lie by the other calls
FEW_CALLS = 10  # times as much work as a block has makes up for fewer calls: an interrupt is short beside it
INTERRUPTED = 0.25  # of the calls of a block may be, and are left out; a median over calls gains nothing by so few
EMPTY_TRIALS = 40
EMPTY_AGAIN = 10
LEAST_BETWEEN = 8  # empty calls between trials from which on they tell what an answer costs
WARM_UP = 5
MOST_EMPTY = 200


@dataclass(frozen=True)
class Disagreement:
    """A block whose calls took longer outside than the device said. Seconds are of a call, net of an empty one."""

    calls: int
    device: float
    outside: float
    by: str = "the clock outside"

    def describe(self) -> str:
        return (
            f"{self.calls} calls took {self.outside * 1e6:.2f} us each by {self.by} "
            f"and {self.device * 1e6:.2f} us by the device's events"
        )


@dataclass(frozen=True)
class NullCall:
    """What an empty call takes on each clock. `delay` is by how much answers are late on average, beyond their median:
    under load it grows for all launchers alike."""

    device: float
    outside: float
    answer: float
    delay: float = 0.0


def null_call(empty: Sequence[Timing], between: Sequence[Timing] = ()) -> NullCall:
    """`between` are empty calls between trials. An answer takes longer there than back to back, because the processes
    of both ends have slept meanwhile; so they tell what an answer costs, once there are enough of them."""
    answers = [timing.answer for timing in (between if len(between) >= LEAST_BETWEEN else empty)]
    usual = median(answers)
    return NullCall(
        median([timing.device for timing in empty]),
        median([timing.outside for timing in empty]),
        usual,
        max(0.0, sum(answers) / len(answers) - usual),
    )


class NullLauncher:
    """A launcher without a candidate, whose calls do nothing: the latest ones tell what the machine does meanwhile."""

    def __init__(self, launcher: LauncherProcess, word: int) -> None:
        self._launcher, self._word = launcher, word
        self._timings: deque[Timing] = deque(maxlen=MOST_EMPTY)
        self._between: deque[Timing] = deque(maxlen=MOST_EMPTY)
        self._measure(WARM_UP)
        self._timings.clear()
        self._measure(EMPTY_TRIALS)

    def again(self) -> None:
        """Some more; the caller holds the device's lock."""
        self._measure(EMPTY_AGAIN)

    def between(self) -> None:
        """One more, just before a trial of a candidate."""
        self._between.append(self._trial())

    def _measure(self, trials: int) -> None:
        self._timings.extend(self._trial() for _ in range(trials))

    def _trial(self) -> Timing:
        return self._launcher.trial(self._word, 5.0, empty=True)

    @property
    def call(self) -> NullCall:
        return null_call(self._timings, self._between)

    def close(self) -> None:
        self._launcher.close()
        self._launcher.log.close()


def disagreement(timings: Sequence[Timing], empty: NullCall) -> Disagreement | None:
    """The first block in which a clock outside saw something else than the device's."""
    return _by_gate(timings, empty) or _by_answers(timings, empty)


def _by_gate(timings: Sequence[Timing], empty: NullCall) -> Disagreement | None:
    """By more than 5% and more than what the gate resolves.

    A block has at least 2 ms of work and three calls or, of short calls, all there are. Within one, medians are
    compared, so that an interrupt of the host does not reject an honest kernel. Calls below 40 us are held to 2 us
    instead of 5%.
    """
    for block in _blocks(timings, empty, GATE_CALLS):
        device = median([t.device for t in block]) - empty.device
        outside = median([t.outside for t in block]) - empty.outside
        if abs(outside - device) > max(AGREEMENT * max(device, outside), RESOLUTION):
            return Disagreement(len(block), device, outside)
    return None


def _by_answers(timings: Sequence[Timing], empty: NullCall) -> Disagreement | None:
    """Longer by more than 5% and 20 us a call, summed over a block of at least 2 ms and at least eight calls. An answer
    that comes earlier than the device says gains nothing.

    The quarter of a block's calls whose answers were latest is left out. A candidate that works on behind the word
    done in fewer calls than that gains nothing, since a speed is a median over calls.
    """
    for block in _blocks(timings, empty, ANSWER_CALLS):
        seconds = sum(_seconds(timing, empty) for timing in block)
        if seconds < BLOCK_SECONDS * (1 if len(block) >= ANSWER_CALLS else FEW_CALLS):
            continue  # too little work for so coarse a clock; the gate has looked at it
        late = sorted(block, key=lambda t: t.answer - t.device)
        kept = late[: len(late) - int(INTERRUPTED * len(late))]
        device = sum(t.device - empty.device for t in kept)
        answer = sum(t.answer - empty.answer for t in kept)
        allowed = AGREEMENT * max(device, answer) + (ANSWER_RESOLUTION + empty.delay) * len(kept)
        if answer - device > allowed:
            return Disagreement(len(kept), device / len(kept), answer / len(kept), "the launcher's answers")
    return None


def _blocks(timings: Sequence[Timing], empty: NullCall, calls: int) -> list[list[Timing]]:
    """Of at least so many calls, and at least 2 ms of work by the clock that saw most of it."""
    blocks: list[list[Timing]] = [[]]
    seconds = 0.0
    for timing in timings:
        if seconds >= BLOCK_SECONDS and len(blocks[-1]) >= calls:
            blocks.append([])
            seconds = 0.0
        blocks[-1].append(timing)
        seconds += _seconds(timing, empty)
    if (seconds < BLOCK_SECONDS or len(blocks[-1]) < calls) and len(blocks) > 1:
        blocks[-2].extend(blocks.pop())
    return [block for block in blocks if block]


def _seconds(timing: Timing, empty: NullCall) -> float:
    """Of a call, by the clock that saw most of it."""
    return max(timing.device, timing.outside - empty.outside, timing.answer - empty.answer)
