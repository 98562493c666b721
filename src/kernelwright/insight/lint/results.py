"""Rules about results: what the judge would accept without any work, and what hardly varies.

A family on which a trivial answer passes is blind. Half of the families or more are an error: the time that is
claimed is a median, so that a kernel which looks at its input and takes the shortcut on half of the trials has
decided it. Fewer are a warning.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch

from kernelwright.insight.lint.finding import LintFinding, Rule, Severity
from kernelwright.insight.lint.trials import Trial, seed_for
from kernelwright.judge.oracle.right.tolerance import Within
from kernelwright.tasks.model import Task

VARIED = 0.25  # more than the few rows of other families that are in every trial can make
MOSTLY = 0.99


@dataclass(frozen=True)
class ResultObservation:
    """What one trial shows about one result."""

    zeros: bool
    constant: bool
    echoes: frozenset[str]
    variation: dict[str, Shares]


def observe(trial: Trial, name: str, seed: int) -> ResultObservation:
    result = trial.drawn.results[name]
    constants = [_typical(other.results[name]) for other in trial.others]
    return ResultObservation(
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


def result_findings(task: Task, name: str, seen: Sequence[ResultObservation], where: str) -> Iterator[LintFinding]:
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


def _passing(
    rule: Rule, subject: str, what: str, count: int, seen: Sequence[ResultObservation], where: str
) -> LintFinding:
    severity = Severity.error if 2 * count >= len(seen) else Severity.warning
    message = f"{what} on {count} of {len(seen)} families (needed: none), {where}"
    return LintFinding(rule, severity, subject, message, count / len(seen))


def _variation_findings(subject: str, seen: Sequence[ResultObservation], where: str) -> Iterator[LintFinding]:
    """Nearly constant is what no family varies. What overall does not vary needs no word on its axes."""
    for direction in seen[0].variation:
        every = [s.variation[direction] for s in seen]
        along = "" if direction in (OVERALL, DRAWS) else " along"
        if direction != DRAWS and all(shares.constant for shares in every):
            message = f"is one {'value' if direction == OVERALL else 'slice'} repeated{along} {direction}, {where}"
            yield LintFinding(Rule.repeated, Severity.warning, subject, message, 1.0)
        elif (best := max(shares.varied for shares in every)) < VARIED:
            message = (
                f"{100 * best:.1f}% of pairs{along} {direction} differ by 16 tolerances and a thousandth "
                f"(needed: {100 * VARIED:.0f}% in one family), {where}"
            )
            yield LintFinding(Rule.nearly_constant, Severity.error, subject, message, best)
        elif direction == OVERALL and (least := min(shares.sameness for shares in every)) > MOSTLY:
            message = f"{100 * least:.2f}% of pairs are equal (wanted: at most {100 * MOSTLY:.0f}%), {where}"
            yield LintFinding(Rule.mostly_constant, Severity.warning, subject, message, least)
            continue
        else:
            continue
        if direction == OVERALL:
            return


# How much a result varies between elements, along an axis and between draws, in terms that a judge cares about.
#
# Pairs of elements are drawn and each pair is the same, close or apart. *Close* means nearer than `TOLERANCES` times
# the judge's tolerance, or than `RELATIVE` of their size:
#
# - A kernel that leaves out a share f of the terms of a sum is off by about the square root of f of its spread. With a
#   spread of K tolerances up to 1/K² of the work can be left out unnoticed; K = 16 makes that 0.4%.
# - What varies by less than a thousandth is a constant to most users' comparisons; only ours would tell.
#
# Pairs that are the same are left out: results with many zeros (gradients of pooling, masks) are sparse, not constant.
# Shares of pairs are counted and no variance is taken, because every trial has a few rows of other families in it, and
# these alone would make the variance large.
PAIRS = 1 << 14
TOLERANCES = 16.0
RELATIVE = 1e-3

OVERALL = "overall"
DRAWS = "between draws"


@dataclass(frozen=True)
class Shares:
    """Of pairs. `constant`: every element, not only those in pairs, is the same in this direction."""

    apart: int
    close: int
    same: int
    constant: bool = False

    @property
    def varied(self) -> float:
        """The share of pairs apart among those that differ at all."""
        differing = self.apart + self.close
        return self.apart / differing if differing else 0.0 if self.constant else 1.0

    @property
    def sameness(self) -> float:
        return self.same / max(1, self.apart + self.close + self.same)


def variation(trial: Trial, name: str, seed: int) -> dict[str, Shares]:
    """By direction: between any elements, along each axis ("axis 0"), and between draws."""
    result = trial.drawn.results[name].contiguous()
    generator = torch.Generator().manual_seed(seed_for(seed, "pairs", name))
    found = {
        direction: _shares(trial, name, here, result.view(-1)[there], constant)
        for direction, here, there, constant in _pairings(result, generator)
    }
    others = [other.results[name].contiguous() for other in trial.others]
    if others and result.numel():
        here = torch.randint(result.numel(), (PAIRS if result.numel() > 1 else 1,), generator=generator)
        every = [_shares(trial, name, here, other.view(-1)[here]) for other in others]
        constant = all(torch.equal(other, result) for other in others)
        found[DRAWS] = Shares(
            sum(s.apart for s in every), sum(s.close for s in every), sum(s.same for s in every), constant
        )
    return found


def _pairings(
    result: torch.Tensor, generator: torch.Generator
) -> Iterator[tuple[str, torch.Tensor, torch.Tensor, bool]]:
    count = result.numel()
    if count < 2:
        return
    here = torch.randint(count, (PAIRS,), generator=generator)
    there = (here + torch.randint(1, count, (PAIRS,), generator=generator)) % count
    yield OVERALL, here, there, bool((result == result.view(-1)[0]).all())
    for axis, (size, stride) in enumerate(zip(result.shape, result.stride(), strict=True)):
        if 1 < size < count:
            place = here // stride % size
            moved = (place + torch.randint(1, size, (PAIRS,), generator=generator)) % size
            yield f"axis {axis}", here, here + (moved - place) * stride, _repeats(result, axis)


def _repeats(result: torch.Tensor, axis: int) -> bool:
    return bool((result == result.narrow(axis, 0, 1)).all())


def _shares(trial: Trial, name: str, here: torch.Tensor, there: torch.Tensor, constant: bool = False) -> Shares:
    expectation = trial.expected[name]
    ours = trial.drawn.results[name].contiguous().view(-1)[here].double()
    theirs = there.double()
    distance = (ours - theirs).abs()
    same = (ours == theirs) | (ours.isnan() & theirs.isnan())
    close = ~same
    if isinstance(expectation, Within):
        low, high = (bound.contiguous().view(-1)[here].double() for bound in (expectation.low, expectation.high))
        tolerance = (high - low) / 2
        size = torch.maximum(ours.abs(), theirs.abs())
        close &= (distance <= TOLERANCES * tolerance) | (distance <= RELATIVE * size)
    else:
        close &= False
    apart = ~same & ~close
    return Shares(int(apart.sum()), int(close.sum()), int(same.sum()), constant)
