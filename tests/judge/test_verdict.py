"""Two views of a verdict: nothing that was learned on hidden workloads reaches an author."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernelwright.judge.oracle.errors.rules import ErrorFinding, TrialSet
from kernelwright.judge.verdict import (
    GENERAL,
    AuthorVerdict,
    BaselineTime,
    Conditions,
    ErrorReport,
    IntervalValue,
    MismatchEvidence,
    Outcome,
    PrecisionEvidence,
    ProcessEvidence,
    Reason,
    Report,
    Stage,
    Verdict,
    WorkloadResult,
    author_view,
)
from kernelwright.judge.wording import (
    FINDINGS,
    FOUND_IN,
    about_times,
    duration,
    error_words,
    evidence_lines,
    finding_words,
    precision_words,
)

SECRET = 7919


def result(*, hidden: bool) -> WorkloadResult:
    size = SECRET if hidden else 64
    seconds = 0.123456789 if hidden else 0.5
    return WorkloadResult(
        label=f"rows={size}",
        sizes={"rows": size},
        dtype="float32",
        hidden=hidden,
        trials=12,
        seconds=seconds,
        baselines=(BaselineTime(baseline="eager", seconds=seconds, speedup=IntervalValue(low=1, mid=2, high=seconds)),),
        raw_seconds={"candidate": (seconds,)},
    )


def verdict(*, on_hidden: bool, reason: Reason = Reason.wrong) -> Verdict:
    label = f"rows={SECRET if on_hidden else 64}"
    evidence = MismatchEvidence(
        workload=label, family="normal", trial=3, result="out", index=(SECRET if on_hidden else 1,),
        expected="1", got="2", error=1.0, tolerance=0.1, wrong=1, unwritten=0, total=9,
    )  # fmt: skip
    return Verdict(
        candidate="c", name="n.cpp", task="t", contract="cpp", verdict=Outcome.rejected, stage=Stage.compare,
        reason=reason, evidence=evidence, failed_on_hidden=on_hidden,
        workloads=(result(hidden=False), result(hidden=True)), artefact="abc", seconds=0.123456789,
        conditions=Conditions(
            sandbox="full", arena="sealed", safety="none", device="cpu", threads=2, judge_version="0", compiler="g"
        ),
    )  # fmt: skip


@given(st.sampled_from(Reason))
def test_nothing_hidden_is_in_the_authors_view(reason: Reason) -> None:
    text = author_view(verdict(on_hidden=True, reason=reason)).model_dump_json()
    assert str(SECRET) not in text
    assert "0.123456789" not in text
    seen = json.loads(text)
    assert seen["evidence"] is None
    general = GENERAL.get(reason, (None, reason))[1]
    assert seen["hidden"] == {"judged": 1, "failed": True, "reason": general} and seen["reason"] == general
    assert general in (Reason.wrong, Reason.crashed) or reason not in GENERAL


def test_everything_public_is_in_the_authors_view() -> None:
    whole = verdict(on_hidden=False)
    seen = author_view(whole)
    assert seen.evidence == whole.evidence
    assert [w.label for w in seen.workloads] == ["rows=64"]
    assert seen.hidden.failed is False and seen.hidden.reason is None


def test_the_words_of_a_runner_on_a_hidden_workload_stay_hidden() -> None:
    """A candidate could print the shapes that it sees."""
    words = ProcessEvidence(workload="rows=1", trial=0, ending="killed", output=(f"rows={SECRET}",))
    whole = verdict(on_hidden=True).model_copy(update={"evidence": words})
    assert str(SECRET) not in author_view(whole).model_dump_json()


def error_report(finding: str, elements: int, *, scalar: bool = False) -> ErrorReport:
    return ErrorReport(
        result="out",
        elements=elements,
        share=0.31,
        rms=0.8,
        eager_rms=1.1,
        mean=0.02,
        eager_mean=-0.01,
        ulp=12,
        eager_ulp=9,
        finding=finding,
        smallest_bias=3e-6,
        scalar=scalar,
    )


def test_an_author_sees_the_errors_on_public_workloads_alone() -> None:
    both, public = error_report("biased", SECRET), error_report("float32", 64)
    update = {"errors": (both,), "public_errors": (public,), "evidence": PrecisionEvidence(report=both)}
    whole = verdict(on_hidden=True, reason=Reason.imprecise).model_copy(update=update)
    seen = author_view(whole)
    assert seen.errors == (public,) and seen.evidence is None
    assert str(SECRET) not in seen.model_dump_json()


@pytest.mark.parametrize(
    ("speedup", "words"), [(1.234, "about 1.23×"), (0.1, "about 0.10×"), (0.00123, "about 0.0012×")]
)
def test_a_slow_candidate_is_never_said_to_be_zero_times_as_fast(speedup: float, words: str) -> None:
    assert about_times(speedup) == words


def test_no_time_is_no_nanosecond() -> None:
    assert (duration(0.0), duration(1e-9), duration(0.5)) == ("0 s", "1 ns", "500 ms")


def test_errors_are_told_beside_eagers_in_one_line() -> None:
    line = error_words(error_report("float32", 64))
    assert line == (
        "out: rms 0.8 roundings (eager 1.1), mean +0.02 (eager -0.01), at most 12 ulp (eager 9), 31% of the tolerance"
    )
    biased = PrecisionEvidence(report=error_report("biased", 64))
    assert "bias" in evidence_lines(biased)[0] and line in evidence_lines(biased)[1]


def test_the_size_of_errors_and_what_they_show_stand_in_summaries() -> None:
    whole = verdict(on_hidden=False)
    assert precision_words(whole) == ""
    both = (error_report("float32", 64), error_report("tf32", 64))
    said = precision_words(whole.model_copy(update={"errors": both}))
    assert said == "out: rms 0.8 u (eager 1.1), float32; out: rms 0.8 u (eager 1.1), tf32"


def test_where_something_was_found_is_told() -> None:
    assert set(FOUND_IN) == {str(one) for one in TrialSet}
    for found_in, words in FOUND_IN.items():
        report = error_report("biased", 64).model_copy(update={"found_in": found_in})
        assert words in evidence_lines(PrecisionEvidence(report=report))[0]


def test_for_one_number_the_gradient_is_named() -> None:
    blind = error_report("indistinguishable", 72, scalar=True)
    assert "judge loss:backward as well" in finding_words(blind, "loss") and "3e-06" in finding_words(blind, "loss")
    assert "judge" not in finding_words(blind, "loss:backward")
    assert set(FINDINGS) == {str(one) for one in ErrorFinding}


def test_a_report_reads_back_as_it_was_written() -> None:
    whole = verdict(on_hidden=False)
    report = Report(task="t", results=(whole, author_view(whole)))
    again = Report.model_validate_json(report.model_dump_json())
    assert again == report
    assert isinstance(again.results[0], Verdict) and isinstance(again.results[1], AuthorVerdict)
