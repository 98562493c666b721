"""From verdicts to rows: by class of reason, with bounds, and of hidden workloads nothing but their speedups."""

from __future__ import annotations

import pytest

from kernelwright.benchmark.results import RejectionClass, RowOutcome, SampleCost, SampleRow
from kernelwright.benchmark.rows import CLASSES, BoundOf, no_bound, rejection_class, row_of
from kernelwright.judge.verdict import (
    DomainFailure,
    MismatchEvidence,
    Outcome,
    Reason,
    SpeedStatus,
    Verdict,
    author_view,
)
from tests.search.toy import candidate_of, verdict_of

CANDIDATE = candidate_of((1,) * 8)
FACTORS = [("n=64", 2.0, False), ("n=777", 3.0, True)]


def made(verdict: Verdict, bound: BoundOf = no_bound) -> SampleRow:
    return row_of(verdict, task="a", sample=0, cost=SampleCost(), at=1.0, environment=0, bound=bound)


def test_every_reason_to_reject_has_a_class() -> None:
    assert set(CLASSES) == set(Reason) - {Reason.right, Reason.judge_failed}


def test_of_hidden_workloads_a_row_has_speedups_and_neither_sizes_nor_times() -> None:
    found = made(verdict_of(CANDIDATE, FACTORS))
    public, hidden = found.workloads
    assert (public.name, public.seconds, hidden.name, hidden.seconds) == ("n=64", 0.5e-3, "hidden 1", None)
    assert hidden.baselines[0].seconds is None
    assert hidden.baselines[0].speedup.mid == 3.0
    assert "777" not in found.model_dump_json()


def test_hidden_workloads_are_numbered_by_their_speedups_and_not_by_their_sizes() -> None:
    factors = [("n=9", 3.0, True), ("n=1", 0.5, True), ("n=5", 2.0, True)]
    found = made(verdict_of(CANDIDATE, factors)).workloads
    assert [(one.name, one.baselines[0].speedup.mid) for one in found] == [
        ("hidden 1", 0.5), ("hidden 2", 2.0), ("hidden 3", 3.0),
    ]  # fmt: skip


def test_what_failed_on_a_hidden_workload_does_not_say_how() -> None:
    evidence = MismatchEvidence(
        workload="n=777", family="normal", trial=1, result="out", index=(3,), expected="1", got="2", error=1.0,
        tolerance=0.1, wrong=1, unwritten=0, total=777,
    )  # fmt: skip
    verdict = verdict_of(CANDIDATE, FACTORS, outcome=Outcome.rejected)
    verdict = verdict.model_copy(update={"evidence": evidence, "failed_on_hidden": True})
    found = made(verdict)
    assert (found.outcome, found.right_on_public) == (RowOutcome.rejected, True)
    assert found.rejections == {RejectionClass.wrong_hidden: 1}
    assert "777" not in found.model_dump_json()
    assert rejection_class(author_view(verdict)) is RejectionClass.wrong_hidden


def test_a_row_names_the_kind_of_values_and_what_torch_carries_out() -> None:
    verdict = verdict_of(CANDIDATE, FACTORS, outcome=Outcome.rejected)
    failed = {"failed_on_hidden": True, "domain_failure": DomainFailure(special="nan", ordinary_right=True)}
    assert made(verdict.model_copy(update=failed)).why == "failed in the domain check, on special values: NaN"
    right = verdict_of(CANDIDATE, FACTORS)
    calls = {"library": ("mm", "sort"), "public_library": ("mm",)}  # which are asked for where may tell hidden sizes
    assert made(right.model_copy(update=calls)).library == ("mm",)


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        (Reason.ran_while_stopped, RejectionClass.protocol),
        (Reason.wrote_outside, RejectionClass.memory),
        (Reason.imprecise, RejectionClass.precision),
        (Reason.does_not_build, RejectionClass.build),
        (Reason.timed_out, RejectionClass.deadline),
    ],
)
def test_classes_of_reasons(reason: Reason, expected: RejectionClass) -> None:
    verdict = verdict_of(CANDIDATE, FACTORS, outcome=Outcome.rejected).model_copy(update={"reason": reason})
    assert made(verdict).rejections == {expected: 1}


@pytest.mark.parametrize(
    ("bound", "of_bound", "sol"),
    [(0.25e-3, 0.5, 0.75), (0.5e-3, 1.0, 1.0), (0.6e-3, 1.2, None), (None, None, None)],
)
def test_the_bound_says_how_much_is_left(bound: float | None, of_bound: float | None, sol: float | None) -> None:
    """The kernel takes 0.5 ms and the baseline 1 ms; a bound that is beaten gives no score."""
    found = made(verdict_of(CANDIDATE, FACTORS[:1]), lambda result: bound).workloads[0]
    assert found.of_bound == pytest.approx(of_bound)
    assert found.sol == (None if sol is None else pytest.approx(sol))


def test_an_undecided_speed_has_neither() -> None:
    found = made(verdict_of(CANDIDATE, FACTORS[:1], status=SpeedStatus.noisy), lambda result: 1e-4).workloads[0]
    assert (found.of_bound, found.sol, found.speed) == (None, None, SpeedStatus.noisy)


def test_a_time_that_cannot_be_is_marked() -> None:
    assert made(verdict_of(CANDIDATE, FACTORS, status=SpeedStatus.investigate)).suspect
