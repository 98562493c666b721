"""Two clocks on the same calls: noise is forgiven, a lie is not."""

from __future__ import annotations

from kernelwright.judge.gpu.client import Timing
from kernelwright.judge.gpu.clocks import disagreement

EMPTY = Timing(3e-6, 9e-6)


def calls(device: float, outside: float, count: int = 40) -> list[Timing]:
    """Times net of an empty call, in microseconds."""
    return [Timing(EMPTY.device + device * 1e-6, EMPTY.outside + outside * 1e-6)] * count


def test_clocks_that_agree_are_fine() -> None:
    for true in (0.5, 5, 50, 500, 50_000):
        assert disagreement(calls(true, true * 1.03 + 0.5), EMPTY) is None


def test_a_device_that_says_less_than_passed_outside_is_caught() -> None:
    assert disagreement(calls(1, 100), EMPTY) is not None
    assert disagreement(calls(900, 1000), EMPTY) is not None
    found = disagreement(calls(5, 12), EMPTY)
    assert found is not None and "12.00 us each by the clock outside and 5.00 us" in found.describe()


def test_one_interrupted_call_is_noise() -> None:
    timings = calls(50, 50)
    timings[7] = Timing(timings[7].device, 5e-3)
    assert disagreement(timings, EMPTY) is None


def test_every_block_is_looked_at() -> None:
    """A kernel that is honest at first and lies later does not hide behind a median of everything."""
    assert disagreement([*calls(500, 500, 100), *calls(100, 500, 40)], EMPTY) is not None


def test_no_calls_say_nothing() -> None:
    assert disagreement([], EMPTY) is None
