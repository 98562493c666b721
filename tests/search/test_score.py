"""What a verdict is worth, and when one kernel may be said to be faster than another."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernelwright.judge.verdict import ErrorReport, JudgeEvidence, Outcome, SpeedStatus, Verdict, author_view
from kernelwright.search.core.best import decide_final
from kernelwright.search.core.score import beats_bound, estimate, fraction_of_bound, pooled, ratio, score
from kernelwright.search.judging import JudgeSettings, judge_fully
from tests.search import toy

CANDIDATE = toy.candidate_of((5,) * 8)


def verdict(*factors: float, hidden: float | None = None, **others: object) -> Verdict:
    rows = [(f"w{index}", factor, False) for index, factor in enumerate(factors)]
    if hidden is not None:
        rows.append(("h", hidden, True))
    return toy.verdict_of(CANDIDATE, rows, **others)  # type: ignore[arg-type]


def test_a_score_is_the_mean_of_lower_ends_with_hidden_workloads() -> None:
    assert score(verdict(2.0, 8.0, spread=0.0)) == pytest.approx(4.0)
    assert score(verdict(2.0, spread=0.1)) == pytest.approx(1.8)
    assert score(verdict(4.0, hidden=1.0, spread=0.0)) == pytest.approx(2.0)


def test_there_is_no_score_without_a_claim() -> None:
    assert score(verdict(2.0, outcome=Outcome.rejected)) is None
    for status in (SpeedStatus.noisy, SpeedStatus.short, SpeedStatus.not_measured):
        assert score(verdict(2.0, status=status)) is None
    assert score(verdict()) is None
    mixed = verdict(2.0, 3.0)
    noisy = mixed.workloads[1].model_copy(update={"speed": SpeedStatus.noisy})
    assert score(mixed.model_copy(update={"workloads": (mixed.workloads[0], noisy)})) is None


def test_the_provisional_value_is_there_in_noise_and_knows_nothing_hidden() -> None:
    noisy = verdict(2.0, 8.0, hidden=100.0, status=SpeedStatus.noisy, spread=0.5)
    assert estimate(noisy) == pytest.approx(4.0) == estimate(author_view(noisy))
    assert estimate(verdict(2.0, outcome=Outcome.rejected)) is None


def test_the_bound_is_reached_when_the_slowest_workload_reaches_it() -> None:
    seen = author_view(verdict(1.0, 2.0))  # 1 ms and 0.5 ms
    assert fraction_of_bound(seen, {"w0": 0.9e-3, "w1": 0.1e-3}) == pytest.approx(0.2)
    assert fraction_of_bound(seen, {}) is None


def test_a_bound_is_beaten_when_any_public_workload_is_clearly_faster() -> None:
    seen = verdict(1.0, 2.0, hidden=9.0)  # 1 ms and 0.5 ms
    assert not beats_bound(seen, {"w0": 1.04e-3, "w1": 0.5e-3, "h": 1.0}) and not beats_bound(seen, {})
    assert beats_bound(seen, {"w0": 0.98e-3, "w1": 0.57e-3})  # though the slowest does not


def test_judged_twice_the_first_measured_time_counts_and_not_the_better() -> None:
    noisy, good, better = verdict(1.0, status=SpeedStatus.noisy), verdict(2.0), verdict(9.0)
    assert score(pooled(noisy, good)) == score(good)
    assert score(pooled(good, better)) == score(good)
    assert pooled(good, noisy).workloads == good.workloads


def test_once_rejected_is_rejected() -> None:
    wrong, good = verdict(2.0, outcome=Outcome.rejected), verdict(2.0)
    lost = verdict(outcome=Outcome.undecided)
    assert pooled(wrong, good) is wrong and pooled(good, wrong) is wrong
    assert pooled(good, lost) is good and pooled(lost, good) is good and pooled(lost, wrong) is wrong


class Noisy:
    """Says these one after the other: for each workload, whether its speed was measured."""

    def __init__(self, *measured: tuple[bool, ...]) -> None:
        self._measured = list(measured)

    def expect(self, *_: object) -> None:
        """There is nothing to build."""

    def judge(self, *_: object) -> Verdict:
        found = verdict(2.0, 3.0)
        statuses = [SpeedStatus.measured if one else SpeedStatus.noisy for one in self._measured.pop(0)]
        rows = zip(found.workloads, statuses, strict=True)
        return found.model_copy(update={"workloads": tuple(r.model_copy(update={"speed": s}) for r, s in rows)})


@pytest.mark.parametrize(
    ("measured", "judgings", "scored"),
    [
        ([(True, True)], 1, True),
        ([(True, False), (False, True)], 2, True),
        ([(True, False), (True, False), (True, False)], 3, False),
        ([(False, False)], 1, False),
    ],
)
def test_a_final_is_judged_again_where_noise_left_gaps(
    measured: list[tuple[bool, ...]], judgings: int, scored: bool
) -> None:
    judged = judge_fully(Noisy(*measured), "toy", CANDIDATE, JudgeSettings(attempts=3), lambda text: None)
    assert judged.judgings == judgings and (score(judged.verdict) is not None) == scored


def test_a_final_is_not_repeated_when_the_budget_is_used_up() -> None:
    judge = Noisy((True, False), (False, True))
    assert judge_fully(judge, "toy", CANDIDATE, JudgeSettings(), lambda text: None, lambda: False).judgings == 1


factors = st.floats(0.1, 50.0)
spreads = st.floats(0.0, 0.4)


@given(ours=factors, theirs=factors, spread=spreads, other=spreads)
def test_swapping_the_two_turns_the_ratio_round(ours: float, theirs: float, spread: float, other: float) -> None:
    one = ratio(verdict(ours, spread=spread), verdict(theirs, spread=other))
    back = ratio(verdict(theirs, spread=other), verdict(ours, spread=spread))
    assert one is not None and back is not None
    assert one.low <= one.mid <= one.high and one.mid == pytest.approx(ours / theirs)
    assert math.isclose(one.low, 1 / back.high) and math.isclose(one.high, 1 / back.low)


def test_a_ratio_needs_workloads_that_both_met_and_measured() -> None:
    assert ratio(verdict(2.0, hidden=9.0), verdict(1.0)) == ratio(verdict(2.0), verdict(1.0))
    assert ratio(verdict(2.0), verdict(1.0, status=SpeedStatus.noisy)) is None
    assert ratio(verdict(2.0), verdict()) is None


def test_a_lucky_timing_is_not_a_win() -> None:
    assert not decide_final(verdict(2.02, spread=0.03), verdict(2.0, spread=0.03)).won
    assert decide_final(verdict(2.5, spread=0.03), verdict(2.0, spread=0.03)).won


def test_public_speed_does_not_win_where_hidden_workloads_lose() -> None:
    reigning = verdict(2.0, 2.0, 2.0, hidden=2.0)
    lost = decide_final(verdict(9.0, 9.0, 9.0, hidden=1.0), reigning)
    assert not lost.won and "hidden" in lost.why and lost.ratio is not None and lost.ratio.low > 1
    assert decide_final(verdict(9.0, 9.0, 9.0, hidden=1.99), reigning).won  # which may as well be as fast
    assert decide_final(verdict(2.0, 2.0, 2.0, hidden=1.0), reigning).estimate_refuted
    assert not decide_final(
        verdict(2.5, 2.5, 2.5, hidden=0.2), reigning
    ).estimate_refuted  # it is faster where it seemed so


def test_noise_and_faults_never_win() -> None:
    good = verdict(1.0)
    assert not decide_final(verdict(9.0, status=SpeedStatus.noisy), None).won
    assert not decide_final(verdict(9.0, outcome=Outcome.rejected), good).won
    assert not decide_final(verdict(9.0), verdict(1.0, status=SpeedStatus.noisy)).won
    assert decide_final(verdict(9.0), verdict(1.0, outcome=Outcome.rejected)).won
    assert decide_final(verdict(0.5), None).won


def test_a_reigning_best_that_cannot_be_judged_again_gives_way_to_what_is_faster_and_is_not_called_noisy() -> None:
    tool = JudgeEvidence(message="racecheck did not finish within 120 s on a hidden workload")
    stuck = verdict(2.0, outcome=Outcome.undecided).model_copy(update={"evidence": tool})
    won, lost = decide_final(verdict(5.0), stuck), decide_final(verdict(1.0), stuck)
    assert won.won and not lost.won
    assert won.why == lost.why == f"the best could not be judged again: {tool.message}"
    assert tool.message in decide_final(stuck, None).why
    assert not decide_final(verdict(5.0), verdict(outcome=Outcome.undecided)).won


def test_a_fault_on_a_hidden_workload_is_told_in_general() -> None:
    wrong = verdict(2.0, outcome=Outcome.rejected)
    exact = wrong.model_copy(update={"failed_on_hidden": True, "reason": "imprecise"})
    assert "imprecise" not in decide_final(exact, None).why and "wrong" in decide_final(exact, None).why


PARTIAL = toy.WHOLE_DOMAIN.model_copy(update={"missing": ("cols at its most (32768)",)})


def test_who_was_not_checked_over_the_whole_domain_never_wins() -> None:
    for reigning in (None, verdict(1.0), verdict(1.0, outcome=Outcome.rejected)):
        partial, unchecked = (decide_final(verdict(9.0, domain=domain), reigning) for domain in (PARTIAL, None))
        assert not partial.won and "cols at its most (32768)" in partial.why
        assert not unchecked.won and unchecked.why == "its domain was not checked"
        assert decide_final(verdict(9.0), reigning).won


def test_of_two_judgings_the_one_that_checked_the_whole_domain_says_what_was_checked() -> None:
    whole, partial, unchecked = (verdict(2.0, domain=one) for one in (toy.WHOLE_DOMAIN, PARTIAL, None))
    assert pooled(whole, partial).domain == pooled(partial, whole).domain == toy.WHOLE_DOMAIN
    assert pooled(unchecked, partial).partial_domain and pooled(partial, unchecked).partial_domain


def test_errors_of_the_last_judging_that_gathered_them_are_kept() -> None:
    plain = toy.verdict_of(toy.candidate_of((1,) * 8), [("a", 2.0, False)])
    figures = {"elements": 9, "share": 0.1, "mean": 0.0, "eager_mean": 0.0, "ulp": 3, "eager_ulp": 3}
    one, two = (ErrorReport(result="y", rms=rms, eager_rms=0.6, finding="float32", **figures) for rms in (0.5, 0.7))
    first, second = (plain.model_copy(update={"errors": (report,)}) for report in (one, two))
    assert pooled(first, second).errors == (two,)
    assert pooled(first, plain).errors == pooled(plain, first).errors == (one,)
