"""Measures the errors of a candidate in one trial: on a random sample of the rows of every result, in units that know
how well each element is conditioned (`rules` says what a unit is), row by row.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch

from kernelwright.judge.oracle.right.constants import CONSTANTS
from kernelwright.tasks.formats import arithmetic

STATISTICS = CONSTANTS.statistics

# Columns of the figures of a row. The first four are of the yardsticks and of the candidate alike.
SUM, SQUARE, RESIDUAL, ULP, SHARE = range(5)


@dataclass(frozen=True)
class ErrorSample:
    """A sample of one result of one trial: where it is taken, and what honest errors are there.

    All are of shape (rows, columns), but `eager` and `sequential`, which hold the figures of each row. `counts` is 0
    where an element says nothing. `predicted` holds errors of shortened forms, by name.
    """

    index: torch.Tensor
    exact: torch.Tensor
    unit: torch.Tensor
    ulp: torch.Tensor
    allowed: torch.Tensor
    counts: torch.Tensor
    weight: torch.Tensor
    eager: torch.Tensor
    sequential: torch.Tensor
    factored: bool
    roundoff: float
    predicted: dict[str, torch.Tensor] = field(default_factory=dict)

    @property
    def nbytes(self) -> int:
        own = (self.index, self.exact, self.unit, self.ulp, self.allowed, self.counts, self.weight)
        return sum(one.nbytes for one in (*own, *self.predicted.values()))


@dataclass(frozen=True)
class Observation:
    """The figures of one trial of one result, row by row; on the device of the result, where nothing waits for them."""

    elements: torch.Tensor
    weight: torch.Tensor
    candidate: torch.Tensor
    eager: torch.Tensor
    sequential: torch.Tensor
    factored: bool
    shares: dict[str, tuple[torch.Tensor, torch.Tensor]]


def sample_index(shape: Sequence[int], generator: torch.Generator) -> torch.Tensor:
    """Places of a result, as if flattened, in an array of rows: random rows, and of long ones every so many columns.

    Rows that are too short are put together to blocks.
    """
    total = math.prod(shape)
    length = shape[-1] if shape and shape[-1] >= STATISTICS.least_row else min(total, 2 * STATISTICS.least_row)
    if total == 0:
        return torch.zeros((0, 1), dtype=torch.int64)
    stride = max(1, -(-length // STATISTICS.columns)) | 1 if length > STATISTICS.columns else 1
    first = int(torch.randint(stride, (), generator=generator))
    columns = torch.arange(min(first, length - 1), length, stride)
    wanted = min(STATISTICS.rows, max(1, STATISTICS.elements // len(columns)), total // length)
    rows = torch.randint(total // length, (wanted,), generator=generator)
    if total // length <= 4 * STATISTICS.rows:
        rows = torch.randperm(total // length, generator=generator)[:wanted]
    return rows.unsqueeze(1) * length + columns


def figures(z: torch.Tensor, weight: torch.Tensor, ulps: torch.Tensor, shares: torch.Tensor) -> torch.Tensor:
    """Of every row: the sum of z, of its squares, of the squares without a common factor; the largest error in units
    in the last place and as a share of the tolerance."""
    factor = (z * weight).sum(1, keepdim=True) / (weight * weight).sum(1, keepdim=True).clamp_min(1e-300)
    rest = z - factor * weight
    parts = (z.sum(1), z.square().sum(1), rest.square().sum(1), ulps.amax(1), shares.amax(1))
    return torch.stack(parts, 1)


def figures_of(
    got: torch.Tensor,
    exact: torch.Tensor,
    unit: torch.Tensor,
    ulp: torch.Tensor,
    allowed: torch.Tensor,
    counts: torch.Tensor,
    weight: torch.Tensor,
) -> torch.Tensor:
    error = (got.double() - exact).nan_to_num(0.0, 0.0, 0.0)
    z = (error * torch.sign(exact).nan_to_num(0.0) / unit).clamp(-STATISTICS.clip, STATISTICS.clip) * counts
    return figures(z, weight, (error / ulp).abs() * counts, torch.where(allowed > 0, error.abs() / allowed, 0.0))


def observe(sample: ErrorSample, result: torch.Tensor) -> Observation:
    """The figures of a candidate's result: a gather of the sample and a few operations on it."""
    got = torch.take(arithmetic(result), sample.index)
    error = (got.double() - sample.exact).nan_to_num(0.0, 0.0, 0.0)
    shares = {
        form: share_sums(error, predicted, sample.exact, sample.roundoff)
        for form, predicted in sample.predicted.items()
    }
    return Observation(
        sample.counts.sum(1),
        sample.weight.sum(1),
        figures_of(got, sample.exact, sample.unit, sample.ulp, sample.allowed, sample.counts, sample.weight),
        sample.eager,
        sample.sequential,
        sample.factored,
        shares,
    )


def share_sums(
    error: torch.Tensor, predicted: torch.Tensor, exact: torch.Tensor, roundoff: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """Of every row: how much of a predicted error is in the error, and how much would be all of it.

    Weights are bounded, so that one large error decides nothing. Where the result cannot hold the predicted error (less
    than half a unit in its last place, as beside a large bias) the element says nothing.
    """
    size = predicted.abs()
    typical = size + size.mean(1, keepdim=True)
    informative = (size > roundoff * exact.abs()) & (typical > 0)
    weight = torch.where(informative, typical.square().reciprocal(), 0.0)
    bounded = torch.maximum(torch.minimum(error, STATISTICS.share_clip * typical), -STATISTICS.share_clip * typical)
    return (bounded * predicted * weight).sum(1), (predicted.square() * weight).sum(1)
