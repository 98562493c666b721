"""The small decisions behind the rules."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from tests.tasks.samples import small_task

from kernelwright.insight.lint.arguments import alternatives, parts
from kernelwright.insight.lint.finding import Rule, Severity
from kernelwright.insight.lint.reference import determinism_findings
from kernelwright.insight.lint.results import ResultObservation, Shares, result_findings
from kernelwright.insight.lint.run import opt_out_findings, range_findings
from kernelwright.insight.lint.trials import accepted, draw
from kernelwright.judge.oracle.right.tolerance import BitExact, Within
from kernelwright.tasks.model import Task


@pytest.mark.parametrize("shape", [(5,), (2, 3), (4, 1, 6)])
def test_halves_cover_an_axis_once(shape: tuple[int, ...]) -> None:
    masks = list(parts(shape).values())
    for one, other in zip(masks[::2], masks[1::2], strict=True):
        assert one.shape == shape and bool((one ^ other).all()) and bool(one.any()) and bool(other.any())


def test_other_values_for_a_number_differ_from_it() -> None:
    for value in (0, 1, 7, 0.0, 0.5, -2.0, True, False):
        assert value not in alternatives(value) and alternatives(value)


def test_acceptance_is_that_of_every_element() -> None:
    middle = torch.linspace(0, 1, 100_000)
    within = Within(middle - 1e-3, middle + 1e-3)
    assert accepted(within, middle)
    wrong = middle.clone()
    wrong[77_777] += 1
    assert not accepted(within, wrong)
    assert not accepted(within, torch.zeros_like(middle))
    assert not accepted(BitExact(middle), wrong)


def seen(*, zeros: bool = False, shares: Shares) -> ResultObservation:
    return ResultObservation(zeros, False, frozenset(), {"overall": shares})


VARIED = Shares(apart=9, close=1, same=0)


@pytest.mark.parametrize(("blind", "severity"), [(1, Severity.warning), (2, Severity.warning), (3, Severity.error)])
def test_half_of_the_families_make_an_error(blind: int, severity: Severity) -> None:
    every = [seen(zeros=number < blind, shares=VARIED) for number in range(6)]
    (finding,) = result_findings(small_task(), "out", every, "somewhere")
    assert (finding.rule, finding.severity, finding.figure) == (Rule.zeros_accepted, severity, blind / 6)
    assert finding.message == f"zeros pass on {blind} of 6 families (needed: none), somewhere"


def test_one_family_that_varies_is_enough() -> None:
    flat = Shares(apart=0, close=10, same=0)
    assert list(result_findings(small_task(), "out", [seen(shares=flat), seen(shares=VARIED)], "")) == []
    (finding,) = result_findings(small_task(), "out", [seen(shares=flat), seen(shares=flat)], "")
    assert (finding.rule, finding.severity) == (Rule.nearly_constant, Severity.error)


def test_equal_pairs_are_sparse_and_not_constant() -> None:
    sparse = Shares(apart=3, close=0, same=97)
    assert list(result_findings(small_task(), "out", [seen(shares=sparse)], "")) == []
    (finding,) = result_findings(small_task(), "out", [seen(shares=Shares(1, 0, 999))], "")
    assert (finding.rule, finding.severity) == (Rule.mostly_constant, Severity.warning)


def rules_of_ranges(task: Task) -> list[tuple[Rule, Severity]]:
    return [(finding.rule, finding.severity) for finding in range_findings(task)]


def test_hidden_ranges() -> None:
    task = small_task()  # public: 8 x 16 and 16 x 8
    assert rules_of_ranges(task) == []
    assert rules_of_ranges(replace(task, hidden={"rows": (8, 12), "cols": (16, 18)})) == [
        (Rule.hidden_range, Severity.error)
    ]
    assert rules_of_ranges(replace(task, hidden={"rows": (8, 8), "cols": (4, 40)})) == [
        (Rule.fixed_size, Severity.note)
    ]
    neighbours = [{"rows": rows, "cols": 16} for rows in (8, 9)]
    assert rules_of_ranges(replace(task, public=neighbours, hidden={"rows": (8, 9), "cols": (4, 40)})) == [
        (Rule.fixed_size, Severity.warning)
    ]


@pytest.mark.parametrize(("bits", "severity"), [(1.0, Severity.warning), (1e9, Severity.error)])
def test_other_last_bits_are_a_warning(bits: float, severity: Severity) -> None:
    calls = []

    def restless(x: torch.Tensor, weight: torch.Tensor, factor: float) -> torch.Tensor:
        calls.append(1)
        return x * weight * factor * (1 + 2 * bits * torch.finfo(x.dtype).eps * (len(calls) % 2))

    task = small_task(reference=restless)
    inputs = draw(task, task.public_workloads()[0], task.families[0], seed=0).inputs
    (finding,) = determinism_findings(task, inputs)
    assert (finding.rule, finding.severity) == (Rule.not_deterministic, severity)


def test_kinds_of_special_values_that_are_not_checked_are_named() -> None:
    assert not list(opt_out_findings(small_task()))
    (finding,) = opt_out_findings(small_task(unchecked=("nan", "infinities")))
    assert (finding.rule, finding.severity) == (Rule.unchecked_values, Severity.note)
    assert "nan, infinities" in finding.message
