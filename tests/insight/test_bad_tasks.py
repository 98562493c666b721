"""Each deliberately bad task is found for the right reason, and for no other."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from kernelwright.devices.cpu import CpuPeaks
from kernelwright.insight.lint import reference
from kernelwright.insight.lint.finding import LintFinding, Rule, Severity
from kernelwright.insight.lint.run import lint
from kernelwright.tasks.model import TaskError
from kernelwright.tasks.resolve import resolve

BAD = Path(__file__).parents[1] / "tasks" / "bad"
SOME_CPU = CpuPeaks("some CPU", threads=1, bandwidth=5e9, float32=1e11, float64=5e10)
Reasons = set[tuple[Rule, str]]

ERRORS: dict[str, Reasons] = {
    "softmax_mean": {(Rule.constant_accepted, "output out"), (Rule.insensitive, "input x")},
    "zero_weight": {
        (Rule.zeros_accepted, "output out"),
        (Rule.fixed_input, "input weight"),
        (Rule.insensitive, "input x"),
    },
    "times_zero": {(Rule.insensitive, "input weight")},
    "own_dropout": {(Rule.not_deterministic, "reference")},
    "negative_relu": {(Rule.zeros_accepted, "output out"), (Rule.insensitive, "input x")},
    "unused_scalar": {(Rule.insensitive, "scalar alpha")},
    "tiny_epsilon": {(Rule.insensitive, "scalar eps")},
    "long_mean": {(Rule.nearly_constant, "output out")},
    "identity": {(Rule.echo_accepted, "output out")},
    "narrow_range": {(Rule.hidden_range, "hidden ranges")},
    "dead_steps": {(Rule.dead_operations, "reference")},
    "half_used": {(Rule.dead_region, "input x")},
    "every_other": {(Rule.dead_region, "input x")},
    "same_rows": {(Rule.nearly_constant, "output out")},
    "wide_tolerance": {(Rule.zeros_accepted, "output out")},
    "tiny_step": {
        (Rule.echo_accepted, "output param"),
        (Rule.insensitive, "input grad"),
        (Rule.insensitive, "scalar lr"),
    },
}
WARNINGS: dict[str, Reasons] = {
    "python_loop": {(Rule.slow_eager, "reference")},
    "fixed_table": {(Rule.fixed_input, "input scale")},
}


@pytest.fixture(autouse=True)
def _no_time(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Eager times count only where they are the reason: a busy machine must not fail the other tests."""
    if "python_loop" not in request.node.name:
        monkeypatch.setattr(reference, "eager_seconds", lambda task, workload: 0.0)


@cache
def findings_of(name: str) -> tuple[LintFinding, ...]:
    return lint(resolve(str(BAD / f"{name}.py")), peaks=SOME_CPU)


def reasons(findings: tuple[LintFinding, ...]) -> dict[Severity, Reasons]:
    return {severity: {(f.rule, f.subject) for f in findings if f.severity is severity} for severity in Severity}


@pytest.mark.parametrize("name", ERRORS)
def test_a_bad_task_is_rejected_for_its_reason_alone(name: str) -> None:
    found = reasons(findings_of(name))
    assert found == {Severity.error: ERRORS[name], Severity.warning: set(), Severity.note: set()}


@pytest.mark.parametrize("name", WARNINGS)
def test_a_weak_task_is_warned_about_for_its_reason_alone(name: str) -> None:
    found = reasons(findings_of(name))
    assert found == {Severity.error: set(), Severity.warning: WARNINGS[name], Severity.note: set()}


def test_a_task_without_hidden_workloads_is_not_even_loaded() -> None:
    with pytest.raises(TaskError, match="hidden ranges of public_only leave no workload"):
        findings_of("public_only")


def test_every_bad_task_is_tested() -> None:
    assert {path.stem for path in BAD.glob("*.py")} == {*ERRORS, *WARNINGS, "public_only"}


def test_a_finding_tells_where_and_how_much() -> None:
    (half,) = findings_of("half_used")
    assert half.figure == 0.5 and "the second half of axis 1" in half.message
    (other,) = findings_of("every_other")
    assert "the odd places of axis 0" in other.message and "even" not in other.message
    (rows,) = findings_of("same_rows")
    assert "along axis 0" in rows.message and rows.figure < 0.25
    assert rows.line("same_rows").startswith("same_rows  error  nearly-constant  output out: ")
