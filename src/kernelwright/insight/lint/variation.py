"""How much a result varies between elements, along an axis and between draws, in terms that a judge cares about.

Pairs of elements are drawn and each pair is the same, close or apart. *Close* means nearer than `TOLERANCES` times
the judge's tolerance, or than `RELATIVE` of their size:

- Who leaves out a share f of the terms of a sum is off by about the square root of f of its spread. With a spread
  of K tolerances up to 1/K² of the work can be left out unnoticed; K = 16 makes that 0.4%.
- What varies by less than a thousandth is a constant to most users' comparisons; only ours would tell.

Pairs that are the same are left out: results with many zeros (gradients of pooling, masks) are sparse, not constant.
Shares of pairs are counted and no variance is taken, because every trial has a few rows of other families in it, and
these alone would make the variance large.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch

from kernelwright.insight.lint.trials import Trial, seed_for
from kernelwright.judge.oracle.tolerance import Within

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
