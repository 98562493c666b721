"""How fast a member may be asked."""

from __future__ import annotations

from dataclasses import dataclass, field

from kernelwright.llm.calling import RateLimiter


@dataclass
class Clock:
    now: float = 100.0
    slept: list[float] = field(default_factory=list)

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> bool:
        self.slept.append(round(seconds, 6))
        self.now += seconds
        return False


def test_so_many_a_minute() -> None:
    clock = Clock()
    pace = RateLimiter(4, 30.0, clock, clock.sleep)
    for _ in range(3):
        with pace.turn():
            pass
    assert clock.slept == [2.0, 2.0]


def test_without_a_limit_nobody_waits() -> None:
    clock = Clock()
    pace = RateLimiter(1, None, clock, clock.sleep)
    for _ in range(3):
        with pace.turn():
            pass
    assert clock.slept == []


def test_a_pause_holds_everybody() -> None:
    clock = Clock()
    pace = RateLimiter(4, None, clock, clock.sleep)
    pace.pause(7.0)
    pace.pause(3.0)
    with pace.turn():
        assert clock.now == 107.0


def test_waiting_ends_when_it_is_over_for_good() -> None:
    clock = Clock()
    pace = RateLimiter(1, None, clock, sleep=lambda seconds: True)
    pace.pause(1000.0)
    with pace.turn():
        assert clock.now == 100.0
