"""Three clocks on the same calls: noise is forgiven, a lie is not."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from kernelwright.judge.gpu.client import Timing
from kernelwright.judge.gpu.clocks import ANSWER_CALLS, NullCall, disagreement, null_call

EMPTY = NullCall(3e-6, 9e-6, 70e-6)
microseconds = st.floats(0.5, 50_000)


def calls(device: float, outside: float, count: int = 40, answer: float | None = None) -> list[Timing]:
    """Times net of an empty call, in microseconds; answers come as late as the word in the gate unless told."""
    answer = outside if answer is None else answer
    return [Timing(EMPTY.device + device * 1e-6, EMPTY.outside + outside * 1e-6, EMPTY.answer + answer * 1e-6)] * count


def jittered(true: float, count: int, seed: int, *, jitter: float = 8e-6, interrupts: float = 0.0) -> list[Timing]:
    """Calls of so many microseconds on a machine whose answers are late by chance, and some by milliseconds."""
    chance, made = random.Random(seed), []
    for _ in range(count):
        device = true * 1e-6 * chance.uniform(0.995, 1.005)
        late = chance.expovariate(1 / jitter)
        if chance.random() < interrupts:
            late += chance.uniform(1e-3, 20e-3)
        made.append(Timing(EMPTY.device + device, EMPTY.outside + device, EMPTY.answer + device + late))
    return made


def test_clocks_that_agree_are_fine() -> None:
    for true in (0.5, 5, 50, 500, 50_000):
        assert disagreement(calls(true, true * 1.03 + 0.5), EMPTY) is None


@given(true=microseconds, count=st.integers(1, 200), seed=st.integers(0, 1 << 30))
def test_honest_answers_with_jitter_pass(true: float, count: int, seed: int) -> None:
    assert disagreement(jittered(true, count, seed), EMPTY) is None


def test_honest_answers_under_load_hardly_ever_disagree() -> None:
    """The null launcher is measured on the same machine at the same time, and its answers are as late. What is left to
    luck costs an honest kernel a speed, which is undecided then, and never a rejection."""
    chance, flagged = random.Random(7), 0
    for _ in range(1000):
        true, seed = 10 ** chance.uniform(-0.3, 4.7), chance.randrange(1 << 30)
        empty = null_call(jittered(0.0, 60, seed + 1, jitter=60e-6))
        flagged += disagreement(jittered(true, 60, seed, jitter=60e-6), empty) is not None
    assert flagged <= 20


def test_a_device_that_says_less_than_passed_outside_is_caught() -> None:
    assert disagreement(calls(1, 100), EMPTY) is not None
    assert disagreement(calls(900, 1000), EMPTY) is not None
    found = disagreement(calls(5, 12), EMPTY)
    assert found is not None and "12.00 us each by the clock outside and 5.00 us" in found.describe()


@given(true=st.floats(50, 50_000), share=st.floats(0.0, 0.3), seed=st.integers(0, 1 << 30))
def test_forged_events_and_a_forged_word_are_caught_by_the_answers(true: float, share: float, seed: int) -> None:
    """Both fine clocks are written by device code; the process answers when its queue is really over."""
    honest = jittered(true, 60, seed)
    forged = [
        Timing(EMPTY.device + share * true * 1e-6, EMPTY.outside + share * true * 1e-6, one.answer) for one in honest
    ]
    found = disagreement(forged, EMPTY)
    assert found is not None and "answers" in found.describe()


@given(true=st.floats(1, 5_000), more=st.floats(60, 50_000), seed=st.integers(0, 1 << 30))
def test_work_that_goes_on_behind_the_word_is_caught(true: float, more: float, seed: int) -> None:
    late = max(more, 0.2 * true) * 1e-6
    working = [Timing(one.device, one.outside, one.answer + late) for one in jittered(true, 60, seed)]
    assert disagreement(working, EMPTY) is not None


def test_interrupted_calls_are_noise() -> None:
    timings = calls(50, 50)
    timings[7] = Timing(timings[7].device, 5e-3, 5e-3)
    assert disagreement(timings, EMPTY) is None
    slow = calls(4000, 4000)
    slow[9] = Timing(slow[9].device, slow[9].outside, 30e-3)  # one in a block of eight calls
    assert disagreement(slow, EMPTY) is None


def test_calls_that_lie_are_more_than_interrupts() -> None:
    honest, lying = calls(500, 500, ANSWER_CALLS), calls(500, 500, ANSWER_CALLS, answer=900)
    mixed = [one for pair in zip(honest, lying, strict=True) for one in pair]
    assert disagreement(mixed * 4, EMPTY) is not None


def test_every_block_is_looked_at() -> None:
    """A kernel that is honest at first and lies later does not hide behind a median of everything."""
    assert disagreement([*calls(500, 500, 100), *calls(100, 500, 40)], EMPTY) is not None
    assert disagreement([*calls(500, 500, 100), *calls(500, 500, 40, answer=900)], EMPTY) is not None


def test_no_calls_say_nothing() -> None:
    assert disagreement([], EMPTY) is None


def test_delays_of_the_null_launcher_are_allowed_for() -> None:
    empty = null_call([*calls(0, 0, 90), *calls(0, 0, 10, answer=1000)])
    assert abs(empty.answer - EMPTY.answer) < 1e-9 and abs(empty.delay - 100e-6) < 1e-9
