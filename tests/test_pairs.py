"""How a pair is looked at: a gain is found however loaded the machine is, and noise is not taken for one."""

from __future__ import annotations

from pathlib import Path

import pytest

from kernelwright.judge.verdict import Outcome, SpeedStatus, Verdict
from tests.pairs import LOADED, Pair, complaint
from tests.search import toy

PAIR = Pair("played", (1,), "rmsnorm", "nothing", (), Path("played.cpp"), Path("played.twin.cpp"), slow=False)
MEASURED, NOISY = SpeedStatus.measured, SpeedStatus.noisy


class Bench:
    """Says of the exploit and of its twin what they are played to reach, judging after judging."""

    def __init__(self, exploit: list[Verdict], twin: Verdict) -> None:
        self._exploit, self._twin = exploit, twin
        self.judged = 0

    def verdict(self, pair: Pair, path: Path, *, afresh: bool = False) -> Verdict:
        if path == pair.twin:
            return self._twin
        self.judged += 1
        return self._exploit[min(self.judged, len(self._exploit)) - 1]


def reached(factor: float, status: SpeedStatus, outcome: Outcome = Outcome.accepted) -> Verdict:
    return toy.verdict_of(toy.candidate_of((0,) * toy.GENES), [("a", factor, False)], status=status, outcome=outcome)


def looked(exploit: list[Verdict], twin: Verdict) -> tuple[str | None, int]:
    bench = Bench(exploit, twin)
    return complaint(PAIR, bench), bench.judged  # type: ignore[arg-type]


def test_a_measured_gain_is_one_at_once() -> None:
    assert looked([reached(1.2, MEASURED)], reached(1.0, MEASURED)) == (
        "on a it claims 1.18x, above its twin's 1.02x",
        1,
    )
    assert looked([reached(1.0, MEASURED)], reached(1.0, MEASURED)) == (None, 1)


@pytest.mark.parametrize(("cheat", "honest"), [(NOISY, MEASURED), (MEASURED, NOISY), (NOISY, NOISY)])
def test_noise_comes_and_goes_and_a_gain_stays(cheat: SpeedStatus, honest: SpeedStatus) -> None:
    high, low, twin = reached(3.0, cheat), reached(1.0, cheat), reached(1.0, honest)
    assert looked([high, high, low], twin) == (None, 3)
    told, judged = looked([high], twin)
    assert told is not None and judged == 1 + LOADED
    assert looked([reached(1.3, cheat)], twin) == (None, 1)


def test_who_is_rejected_when_judged_again_is_told() -> None:
    told, _ = looked([reached(3.0, NOISY), reached(3.0, NOISY, Outcome.rejected)], reached(1.0, NOISY))
    assert told == "accepted, and then rejected (its twin: accepted)"
