"""Rules about results: what the judge would accept without any work, and what hardly varies.

A family on which a trivial answer passes is blind. Half of the families or more are an error: the time that is
claimed is a median, so that a kernel which looks at its input and takes the shortcut on half of the trials has
decided it. Fewer are a warning.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch

from kernelwright.insight.lint.finding import Finding, Rule, Severity
from kernelwright.insight.lint.trials import Trial
from kernelwright.insight.lint.variation import DRAWS, OVERALL, Shares, variation
from kernelwright.tasks.model import Task

VARIED = 0.25  # more than the few rows of other families that are in every trial can make
MOSTLY = 0.99


@dataclass(frozen=True)
class Seen:
    """What one trial shows about one result."""

    zeros: bool
    constant: bool
    echoes: frozenset[str]
    variation: dict[str, Shares]


def see(trial: Trial, name: str, seed: int) -> Seen:
    result = trial.drawn.results[name]
    constants = [_typical(other.results[name]) for other in trial.others]
    return Seen(
        zeros=trial.accepts(name, torch.zeros_like(result)),
        constant=all(trial.accepts(name, torch.full_like(result, value)) for value in constants),
        echoes=frozenset(_echoes(trial, name)),
        variation=variation(trial, name, seed),
    )


def _typical(result: torch.Tensor) -> float | int | bool:
    """The middle or most common value of another draw: what a kernel that knows the task by heart would return."""
    sample = result.reshape(-1)[:: result.numel() // (1 << 16) | 1]
    middle = sample.median() if result.is_floating_point() else sample.long().mode().values
    return bool(middle) if result.dtype == torch.bool else middle.item()


def _echoes(trial: Trial, name: str) -> Iterator[str]:
    """Inputs that pass as they are: of as many elements, or repeated over the leading axes (a bias)."""
    result = trial.drawn.results[name]
    for given, value in trial.drawn.inputs.items():
        if not isinstance(value, torch.Tensor) or value.dtype != result.dtype or not value.numel():
            continue
        if value.numel() == result.numel():
            answer = value.reshape(result.shape)
        elif value.numel() > 1 and _broadcasts(value, result):
            answer = value.expand(result.shape).contiguous()
        else:
            continue
        if trial.accepts(name, answer):
            yield given


def _broadcasts(value: torch.Tensor, result: torch.Tensor) -> bool:
    sizes = zip(reversed(value.shape), reversed(result.shape), strict=False)
    return value.dim() <= result.dim() and all(own in (1, wanted) for own, wanted in sizes)


def result_findings(task: Task, name: str, seen: Sequence[Seen], where: str) -> Iterator[Finding]:
    """Of one workload; `seen` has one entry for each family."""
    subject = f"output {name}"
    zeros, constant = sum(s.zeros for s in seen), sum(s.constant for s in seen)
    if zeros:
        yield _passing(Rule.zeros_accepted, subject, "zeros pass", zeros, seen, where)
    if constant > zeros:
        yield _passing(Rule.constant_accepted, subject, "a constant passes", constant, seen, where)
    for given in task.inputs:
        echoes = sum(given in s.echoes for s in seen)
        if echoes:
            what = "leaving it as it was passes" if given == name else f"input {given} passes as it is"
            yield _passing(Rule.echo_accepted, subject, what, echoes, seen, where)
    if max(zeros, constant) < len(seen):
        yield from _variation_findings(subject, seen, where)


def _passing(rule: Rule, subject: str, what: str, count: int, seen: Sequence[Seen], where: str) -> Finding:
    severity = Severity.error if 2 * count >= len(seen) else Severity.warning
    message = f"{what} on {count} of {len(seen)} families (needed: none), {where}"
    return Finding(rule, severity, subject, message, count / len(seen))


def _variation_findings(subject: str, seen: Sequence[Seen], where: str) -> Iterator[Finding]:
    """Nearly constant is what no family varies. What overall does not vary needs no word on its axes."""
    for direction in seen[0].variation:
        every = [s.variation[direction] for s in seen]
        along = "" if direction in (OVERALL, DRAWS) else " along"
        if direction != DRAWS and all(shares.constant for shares in every):
            message = f"is one {'value' if direction == OVERALL else 'slice'} repeated{along} {direction}, {where}"
            yield Finding(Rule.repeated, Severity.warning, subject, message, 1.0)
        elif (best := max(shares.varied for shares in every)) < VARIED:
            message = (
                f"{100 * best:.1f}% of pairs{along} {direction} differ by 16 tolerances and a thousandth "
                f"(needed: {100 * VARIED:.0f}% in one family), {where}"
            )
            yield Finding(Rule.nearly_constant, Severity.error, subject, message, best)
        elif direction == OVERALL and (least := min(shares.sameness for shares in every)) > MOSTLY:
            message = f"{100 * least:.2f}% of pairs are equal (wanted: at most {100 * MOSTLY:.0f}%), {where}"
            yield Finding(Rule.mostly_constant, Severity.warning, subject, message, least)
            continue
        else:
            continue
        if direction == OVERALL:
            return
