"""A verdict as a person reads it: nothing is said of what was not reached."""

from __future__ import annotations

import io

from rich.console import Console
from tests.search import toy

from kernelwright.cli.views.verdicts import show
from kernelwright.judge.verdict import (
    AuthorVerdict,
    DomainFailure,
    Outcome,
    Reason,
    SpeedStatus,
    Stage,
    Verdict,
    author_view,
)


def shown(verdict: Verdict | AuthorVerdict) -> str:
    out = io.StringIO()
    show(Console(file=out, width=200), verdict)
    return out.getvalue()


def test_what_does_not_build_was_not_seen_by_sanitizers() -> None:
    accepted = toy.verdict_of(toy.candidate_of((1,) * 8), [("a", 2.0, False)])
    assert "sandbox" in shown(accepted) and "arena" in shown(accepted) and "sanitizers" in shown(accepted)
    fault = {"verdict": Outcome.rejected, "stage": Stage.build, "reason": Reason.does_not_build, "workloads": ()}
    said = shown(accepted.model_copy(update=fault))
    assert "it does not build" in said and "sandbox" in said
    assert "arena" not in said and "sanitizers" not in said


def test_a_slow_kernel_is_called_slower() -> None:
    said = shown(toy.verdict_of(toy.candidate_of((1,) * 8), [("a", 0.5, False)]))
    assert "slower than" in said and "over eager" not in said


def test_an_undecided_speed_says_why_and_what_to_do() -> None:
    verdict = toy.verdict_of(toy.candidate_of((1,) * 8), [("a", 2.0, False)])
    for status, words in ((SpeedStatus.noisy, "too noisy"), (SpeedStatus.wide, "the interval is too wide")):
        results = tuple(result.model_copy(update={"speed": status}) for result in verdict.workloads)
        said = shown(verdict.model_copy(update={"workloads": results}))
        assert f"undecided: {words}" in said or f"undecided: the machine is {words}" in said
    assert "what to do" in said


def test_a_rejected_kernel_is_not_bothered_with_noise() -> None:
    verdict = toy.verdict_of(toy.candidate_of((1,) * 8), [("a", 2.0, False)])
    wide = tuple(result.model_copy(update={"speed": SpeedStatus.wide}) for result in verdict.workloads)
    wrong = {"verdict": Outcome.rejected, "stage": Stage.compare, "reason": Reason.wrong, "workloads": wide}
    assert "what to do" in shown(verdict.model_copy(update={"workloads": wide}))
    assert "what to do" not in shown(verdict.model_copy(update=wrong))


def test_an_author_whose_kernel_failed_out_of_sight_is_told_what_to_try() -> None:
    verdict = toy.verdict_of(toy.candidate_of((1,) * 8), [("a", 2.0, False)])
    failed = {"verdict": Outcome.rejected, "stage": Stage.domain, "reason": Reason.wrong, "failed_on_hidden": True}
    wrong = verdict.model_copy(update=failed)
    assert "Try other sizes and special values" in shown(author_view(wrong))
    assert "Try other" not in shown(wrong)  # an auditor sees what failed


def test_an_author_whose_kernel_failed_on_special_values_is_told_their_kind() -> None:
    verdict = toy.verdict_of(toy.candidate_of((1,) * 8), [("a", 2.0, False)])
    failed = {"verdict": Outcome.rejected, "stage": Stage.domain, "reason": Reason.wrong, "failed_on_hidden": True}
    wrong = verdict.model_copy(update={**failed, "domain_failure": DomainFailure(special="nan", ordinary_right=True)})
    said = shown(author_view(wrong))
    assert "its result is wrong, in the domain check, on special values: NaN" in said
    assert "Compare with the reference on inputs that hold such values; --view auditor" in said
    sizes = wrong.model_copy(update={"domain_failure": DomainFailure()})
    assert "Try other sizes within" in shown(author_view(sizes))
