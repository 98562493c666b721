"""The domain check from end to end on a CPU: kernels that are wrong only where no timed trial looks."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kernelwright.contracts import Candidate
from kernelwright.judge import certificate as certificates
from kernelwright.judge.controller import Judge
from kernelwright.judge.domain_check import LIGHT, ORDINARY, call_deadline, plan_calls
from kernelwright.judge.evaluation import Evaluation
from kernelwright.judge.oracle_client import CheckPoint, DomainChecks, NamedValues, WorkloadSpec, close_descriptors
from kernelwright.judge.replay import replay
from kernelwright.judge.settings import DOMAIN_SECONDS, Settings
from kernelwright.judge.timing.measure import Sampling
from kernelwright.judge.verdict import (
    DomainCheck,
    DomainFailure,
    MismatchEvidence,
    Outcome,
    ProcessEvidence,
    Reason,
    Stage,
    Verdict,
    author_view,
)
from kernelwright.judge.wording import domain_words, evidence_lines, failure_words, outcome_words, unseen_words
from kernelwright.tasks.domain import Coverage
from kernelwright.tasks.model import Signature, Workload

TASK = '''
"""The larger of the input and zero."""
import torch
from kernelwright.tasks import Task, tensor

def reference(x):
    return torch.relu(x)

task = Task(reference, inputs={"x": tensor("rows", "cols")},
            public=[{"rows": 40, "cols": 64}], hidden={"rows": (1, 64), "cols": (1, 512)})
'''
KERNEL = """
#include <kernelwright.h>
void kernel(kw::Tensor<const float, 2> x, kw::Tensor<float, 2> out) {
  const long n = x.numel(), rows = x.size(0), cols = x.size(1);
  for (long i = 0; i < n; ++i) out.data[i] = x.data[i] < 0 ? 0 : x.data[i];
  BODY
}
"""
# Timed hidden workloads have about as many elements as the public one: none is as small or as large as this asks.
WRONG_AT = "if (({}) && (n < 1000 || n > 5000)) out.data[n - 1] += 1.0f;"


@pytest.fixture(scope="module")
def task(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("domain") / "relu.py"
    path.write_text(TASK)
    return str(path)


@pytest.fixture(scope="module")
def judge() -> Iterator[Judge]:
    with Judge(Settings(baselines=(), effort=Sampling(least=2, most=2), safety=False, certify=True)) as one:
        yield one


def judged(judge: Judge, task: str, body: str = "", **settings: Any) -> Verdict:
    candidate = Candidate("cpp", KERNEL.replace("BODY", body), "relu.cpp")
    return judge.judge(task, candidate, settings=replace(judge.settings, **settings))


def test_a_kernel_that_is_right_everywhere_says_what_was_checked(judge: Judge, task: str) -> None:
    verdict = judged(judge, task)
    assert (verdict.verdict, verdict.stage) == (Outcome.accepted, Stage.complete)
    assert verdict.domain is not None and not verdict.partial_domain
    assert verdict.domain.calls >= verdict.domain.points > 2
    assert verdict.domain.classes == verdict.domain.classes_possible > 0
    assert "nan" in verdict.domain.values
    assert outcome_words(verdict) == "accepted"
    assert f"at {verdict.domain.points} check points" in domain_words(verdict)
    assert verdict.stage_seconds["domain"] > 0


@pytest.mark.parametrize("where", ["cols % 8 == 4", "rows == 1", "cols == 1", "cols == 512"])
def test_a_kernel_that_is_wrong_at_few_sizes_is_rejected(judge: Judge, task: str, where: str) -> None:
    verdict = judged(judge, task, WRONG_AT.format(where))
    assert (verdict.verdict, verdict.stage) == (Outcome.rejected, Stage.domain)
    assert verdict.failed_on_hidden and verdict.domain is None
    assert isinstance(verdict.evidence, MismatchEvidence)


def test_a_kernel_that_is_wrong_at_nan_is_rejected_and_the_auditor_reads_where(judge: Judge, task: str) -> None:
    verdict = judged(judge, task, "for (long i = 0; i < n; ++i) if (x.data[i] != x.data[i]) out.data[i] = 0;")
    assert (verdict.stage, verdict.reason) == (Stage.domain, Reason.nan_or_inf)
    assert isinstance(verdict.evidence, MismatchEvidence) and verdict.evidence.special.startswith("nan")
    assert any(verdict.evidence.special in line for line in evidence_lines(verdict.evidence))


def test_a_kernel_that_crashes_at_one_size_is_rejected(judge: Judge, task: str) -> None:
    verdict = judged(judge, task, "if (cols == 1) __builtin_trap();")
    assert (verdict.stage, verdict.reason) == (Stage.domain, Reason.crashed)
    assert isinstance(verdict.evidence, ProcessEvidence)


def test_the_author_learns_that_the_domain_check_failed_and_in_what_general_way(judge: Judge, task: str) -> None:
    verdict = judged(judge, task, "for (long i = 0; i < n; ++i) if (x.data[i] != x.data[i]) out.data[i] = 0;")
    seen = author_view(verdict)
    assert (seen.stage, seen.reason, seen.evidence, seen.domain) == (Stage.domain, Reason.wrong, None, None)
    assert isinstance(verdict.evidence, MismatchEvidence)
    text = seen.model_dump_json()
    assert verdict.evidence.workload not in text and verdict.evidence.special not in text
    assert not any(name in json.loads(text) for name in ("stage_seconds", "seconds", "artefact"))


NATURAL = "for (long i = 0; i < n; ++i) out.data[i] = x.data[i] > 0 ? x.data[i] : 0;"


def test_the_author_learns_on_which_kind_of_values_it_failed(judge: Judge, task: str) -> None:
    seen = author_view(judged(judge, task, NATURAL))
    assert seen.domain_failure is not None and seen.domain_failure.special == "nan"
    assert unseen_words(seen).startswith("in the domain check, on special values: NaN")
    assert author_view(judged(judge, task)).domain_failure is None


def test_the_author_learns_that_sizes_and_not_values_are_at_fault_and_not_which(judge: Judge, task: str) -> None:
    verdict = judged(judge, task, WRONG_AT.format("cols % 8 == 4"))
    seen = author_view(verdict)
    assert isinstance(verdict.evidence, MismatchEvidence) and seen.domain_failure is not None
    words = unseen_words(seen)
    if not verdict.evidence.special:
        assert words == "in the domain check, on ordinary values at sizes other than the public ones"
    else:  # values are planted at the sizes at fault before ordinary ones
        assert words.endswith(", at sizes where ordinary values were not tried before")
    assert not seen.domain_failure.ordinary_right and "cols" not in seen.domain_failure.model_dump_json()


def test_ordinary_values_that_were_right_at_the_same_sizes_leave_the_special_ones_at_fault() -> None:
    right = DomainFailure(special="constant_rows", ordinary_right=True)
    assert failure_words(right) == "in the domain check, on special values: constant rows"


def test_the_authors_view_of_an_accepted_candidate_has_no_size_of_a_point(judge: Judge, task: str) -> None:
    verdict = judged(judge, task)
    assert author_view(verdict).domain == verdict.domain
    assert verdict.domain is not None
    assert all(isinstance(getattr(verdict.domain, name), int | float | tuple) for name in DomainCheck.model_fields)
    assert not any("=" in text for text in (*verdict.domain.missing, *verdict.domain.values))


def test_without_the_check_a_verdict_says_so(judge: Judge, task: str) -> None:
    for settings in ({"domain": False}, {"public_only": True}):
        verdict = judged(judge, task, WRONG_AT.format("cols == 1"), **settings)
        assert verdict.verdict is Outcome.accepted and verdict.domain is None
        assert domain_words(verdict) == "domain not checked"


def test_points_that_are_not_reached_in_time_leave_the_domain_partial(
    judge: Judge, task: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(DOMAIN_SECONDS, "cpu", 0.0)
    verdict = judged(judge, task)
    assert verdict.verdict is Outcome.accepted and verdict.partial_domain
    assert outcome_words(verdict) == "accepted (partial domain)"
    assert verdict.domain is not None and verdict.domain.points < 2
    assert "not checked: " in domain_words(verdict)
    assert Verdict.model_validate_json(verdict.model_dump_json()) == verdict
    assert json.loads(verdict.model_dump_json())["partial_domain"] is True


def test_every_judging_draws_its_own_points(judge: Judge, task: str) -> None:
    drawn = []
    for _ in range(2):
        opened = judge.open(task)
        key = Evaluation(judge._shop, judge.settings, opened, Candidate("cpp", "", ""), b"").check_key
        drawn.append([point.spec.workload for point in judge._shop.oracle.checks(opened, key).points])
    assert drawn[0] != drawn[1]


@pytest.mark.parametrize("body", [WRONG_AT.format("cols % 8 == 4"), "if (x.data[n - 1] != x.data[n - 1]) {}"])
def test_a_replay_repeats_the_check(judge: Judge, task: str, body: str) -> None:
    verdict = judged(judge, task, body)
    assert verdict.certificate is not None
    issued = certificates.load(verdict.certificate)
    assert issued.settings.domain and len(issued.checks) == 64
    again = replay(issued)
    assert again.same and again.verdict.stage is verdict.stage
    if verdict.domain is not None and again.verdict.domain is not None:
        assert replace_seconds(again.verdict) == replace_seconds(verdict)
    else:
        assert (issued.failure is not None) and issued.failure.run.startswith("checked ")
        assert again.verdict.evidence == verdict.evidence


def replace_seconds(verdict: Verdict) -> object:
    assert verdict.domain is not None
    return verdict.domain.model_copy(update={"seconds": 0.0})


def test_a_replay_of_a_failure_on_special_values_begins_with_them(judge: Judge, task: str) -> None:
    verdict = judged(judge, task, "for (long i = 0; i < n; ++i) if (x.data[i] != x.data[i]) out.data[i] = 0;")
    assert verdict.certificate is not None and isinstance(verdict.evidence, MismatchEvidence)
    issued = certificates.load(verdict.certificate)
    assert issued.failure is not None and issued.failure.special == verdict.evidence.special
    again = replay(issued)
    assert again.same and isinstance(again.verdict.evidence, MismatchEvidence)
    assert again.verdict.evidence.trial == 0 and not again.verdict.workloads
    assert again.verdict.evidence.index == verdict.evidence.index


def test_values_that_are_drawn_ahead_are_those_that_would_be_drawn(judge: Judge, task: str) -> None:
    oracle, opened, key = judge._shop.oracle, judge.open(task), bytes(32)

    def drawn(*, ahead: bool) -> list[object]:
        found: list[object] = []
        planned = plan_calls(oracle.checks(opened, key), key)
        oracle.expect(opened, key.hex(), [(one.spec.workload, one.calls) for one in planned])
        if ahead:
            oracle.draw_ahead(60.0)
        for one in planned:
            _, descriptors, _ = oracle.point(opened, one.spec)
            close_descriptors(descriptors)
            oracle.begin_at_point(opened, one.spec.workload, key.hex(), one.calls)
            for _ in one.calls:
                oracle.load()
                found.append(oracle.forget())
        oracle.leave()
        return found

    first = drawn(ahead=False)
    assert len({str(draw) for draw in first}) == len(first) and drawn(ahead=True) == first


def checks(works: list[float], specials: int) -> DomainChecks:
    specs = [WorkloadSpec(Workload((("n", number),)), Signature(())) for number in range(len(works))]
    points = tuple(CheckPoint(spec, work) for spec, work in zip(specs, works, strict=True))
    names = tuple(NamedValues(f"special {number}", "nan", ("float32",)) for number in range(specials))
    return DomainChecks(points, Coverage((1, 1), (0, 0), (0, 0), ()), names, ())


@pytest.mark.parametrize(("works", "specials"), [([0.1] * 40, 12), ([1.0, 30.0, 2.0], 7), ([9.0], 2), ([1.0] * 5, 0)])
def test_every_point_has_an_ordinary_call_and_every_special_value_a_light_point(
    works: list[float], specials: int
) -> None:
    planned = plan_calls(checks(works, specials), b"key")
    assert [one.point.work for one in planned] == works
    assert all(one.calls.count(ORDINARY) == 1 for one in planned)
    called = {special for one in planned for special in one.calls if special}
    assert called == {f"special {number}" for number in range(specials)}
    if len(works) > 1:
        assert all(one.point.work <= LIGHT or len(one.calls) == 1 for one in planned)
    if specials:
        assert all(len(one.calls) > 1 for one in planned if one.point.work <= LIGHT)


def test_special_values_come_at_points_of_their_dtypes_and_every_kind_in_each_dtype() -> None:
    dtypes = ("float32", "float16", "bfloat16")
    specs = [WorkloadSpec(Workload((("n", number),), dtypes[number % 3]), Signature(())) for number in range(12)]
    names = (
        *(NamedValues(f"special {number}", "nan", dtypes) for number in range(2)),
        NamedValues("half", "ties", dtypes[1:]),
    )
    points = tuple(CheckPoint(spec, 0.5) for spec in specs)
    for key in (b"one", b"two", b"three"):
        planned = plan_calls(DomainChecks(points, Coverage((1, 1), (0, 0), (0, 0), ()), names, ()), key)
        met = {(one.spec.workload.dtype, name) for one in planned for name in one.calls if name}
        assert {dtype for dtype, name in met if name.startswith("special")} == set(dtypes)
        assert {dtype for dtype, name in met if name == "half"} == set(dtypes[1:])


@pytest.mark.parametrize(
    "body",
    [
        "static long calls = 0; if (++calls > 5 && cols % 8 == 4 && (n < 1000 || n > 5000)) out.data[n - 1] += 1.0f;",
        "static long calls = 0; if (++calls > 5)"
        " for (long i = 0; i < n; ++i) if (!(out.data[i] == out.data[i])) out.data[i] = 0;",
    ],
)
def test_a_kernel_that_counts_its_calls_does_not_know_the_check_by_them(judge: Judge, task: str, body: str) -> None:
    found = [judged(judge, task, body) for _ in range(3)]  # each misses some points
    assert Stage.domain in {verdict.stage for verdict in found}


def test_a_call_may_take_longer_where_there_is_more_work() -> None:
    assert call_deadline((), 0.01) == 5.0
    assert call_deadline((), 40.0) == pytest.approx(200.0)


def test_nothing_of_a_check_stays_in_the_oracle(judge: Judge, task: str) -> None:
    """Its descriptors: an arena has one for each tensor. Those of timed workloads stay open, up to a number."""

    def descriptors() -> int:
        judged(judge, task)
        return len(list(Path(f"/proc/{judge._shop.oracle.pid}/fd").iterdir()))

    assert descriptors() == descriptors()
