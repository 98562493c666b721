"""What the errors of a candidate say over a whole judging: pure statistics, for any reference.

An error is measured on a random sample of the rows of every result, and counts towards the sign of the reference:

    z = error * sign(ref) / unit,   unit = max(u |ref|, s / 128, jumps)

with u the unit roundoff of the result's format, s the distance by which the judge's probes move the element, and
`jumps` what the other side of a mask would give. The yardstick is the worse of eager PyTorch and a reference with
sequential sums. A result is imprecise if one of these holds over all trials of a judging:

1. `biased`: |mean z| > MEAN + the yardstick's |mean| + STANDARD_ERRORS standard errors of means.
2. `coarse`: the median over rows of rms z / max(yardstick, FLOOR) > RATIO.
3. `coarse`: the same for what is left of z when each row's best common factor is taken out. The order in which a sum
   is added up changes the factor alone, so this stays sharp on long rows.
4. `tf32`, `2xtf32`, `bf16x3`: the share of that form's predicted error in the candidate's error is above SHARE. The
   error of factors that were shortened has share 1; the errors of float32 have share 0, whatever their size.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum

import torch


@dataclass(frozen=True)
class StatisticalConstants:
    """Fixed on the corpus of `benchmarks/cpu/precision_corpus.py`, which a test compares with these."""

    mean: float = 2.0  # units by which a mean may exceed the yardstick's
    standard_errors: float = 4.0  # by which means may differ at random
    ratio: float = 2.5  # times the yardstick that a typical row may reach
    floor: float = 1.0  # units: what any honest kernel may lose, also where eager loses nothing
    share: float = 0.2  # of a predicted error
    clip: float = 128.0  # units: a value that took the other side of a tie decides nothing
    least_row: int = 16  # elements: shorter rows are put together
    least_rows: int = 4  # fewer decide nothing
    visible_bias: float = 2e-5  # where a larger one would go unnoticed, nothing was seen
    rows: int = 64  # sampled in a trial of a result
    columns: int = 2048  # sampled in a row
    elements: int = 1 << 15  # sampled in a trial of a result
    filtered_trials: int = 4  # of a workload, on which shortened factors are looked for
    filtered_elements: int = 1 << 12  # of a workload, for results so small that more trials are needed


STATISTICS = StatisticalConstants()


class ErrorFinding(StrEnum):
    """What the errors of a result look like. `float32`: like those of an honest kernel, where others would show."""

    float32 = "float32"
    biased = "biased"
    coarse = "coarse"
    tf32 = "tf32"
    tf32x2 = "2xtf32"
    bf16x3 = "bf16x3"
    indistinguishable = "indistinguishable"

    @property
    def imprecise(self) -> bool:
        return self not in (ErrorFinding.float32, ErrorFinding.indistinguishable)


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


@dataclass(frozen=True)
class ErrorSummary:
    """What a judging found in the errors of one result. `margins` are the rules' figures where 1 is the limit."""

    elements: int
    share: float
    rms: float
    eager_rms: float
    mean: float
    eager_mean: float
    ulp: float
    eager_ulp: float
    finding: ErrorFinding
    smallest_bias: float | None
    margins: dict[str, float]


def sample_index(
    shape: Sequence[int], generator: torch.Generator, constants: StatisticalConstants = STATISTICS
) -> torch.Tensor:
    """Places of a result, as if flattened, in an array of rows: random rows, and of long ones every so many columns.

    Rows that are too short are put together to blocks.
    """
    total = math.prod(shape)
    length = shape[-1] if shape and shape[-1] >= constants.least_row else min(total, 2 * constants.least_row)
    if total == 0:
        return torch.zeros((0, 1), dtype=torch.int64)
    stride = max(1, -(-length // constants.columns)) | 1 if length > constants.columns else 1
    first = int(torch.randint(stride, (), generator=generator))
    columns = torch.arange(min(first, length - 1), length, stride)
    wanted = min(constants.rows, max(1, constants.elements // len(columns)), total // length)
    rows = torch.randint(total // length, (wanted,), generator=generator)
    if total // length <= 4 * constants.rows:
        rows = torch.randperm(total // length, generator=generator)[:wanted]
    return rows.unsqueeze(1) * length + columns


def figures(z: torch.Tensor, weight: torch.Tensor, ulps: torch.Tensor, shares: torch.Tensor) -> torch.Tensor:
    """Of every row: the sum of z, of its squares, of the squares without a common factor; the largest error in units
    in the last place and as a share of the tolerance."""
    factor = (z * weight).sum(1, keepdim=True) / (weight * weight).sum(1, keepdim=True).clamp_min(1e-300)
    rest = z - factor * weight
    parts = (z.sum(1), z.square().sum(1), rest.square().sum(1), ulps.amax(1), shares.amax(1))
    return torch.stack(parts, 1)


def errors_in_units(sample: ErrorSample, got: torch.Tensor, constants: StatisticalConstants) -> torch.Tensor:
    return figures_of(
        got, sample.exact, sample.unit, sample.ulp, sample.allowed, sample.counts, sample.weight, constants
    )


def figures_of(
    got: torch.Tensor,
    exact: torch.Tensor,
    unit: torch.Tensor,
    ulp: torch.Tensor,
    allowed: torch.Tensor,
    counts: torch.Tensor,
    weight: torch.Tensor,
    constants: StatisticalConstants = STATISTICS,
) -> torch.Tensor:
    error = (got.double() - exact).nan_to_num(0.0, 0.0, 0.0)
    z = (error * torch.sign(exact).nan_to_num(0.0) / unit).clamp(-constants.clip, constants.clip) * counts
    return figures(z, weight, (error / ulp).abs() * counts, torch.where(allowed > 0, error.abs() / allowed, 0.0))


def observe(sample: ErrorSample, result: torch.Tensor, constants: StatisticalConstants = STATISTICS) -> Observation:
    """The figures of a candidate's result: a gather of the sample and a few operations on it."""
    got = torch.take(result, sample.index)
    error = (got.double() - sample.exact).nan_to_num(0.0, 0.0, 0.0)
    shares = {
        form: share_sums(error, predicted, sample.exact, sample.roundoff)
        for form, predicted in sample.predicted.items()
    }
    return Observation(
        sample.counts.sum(1),
        sample.weight.sum(1),
        errors_in_units(sample, got, constants),
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
    bounded = torch.maximum(torch.minimum(error, 4 * typical), -4 * typical)
    return (bounded * predicted * weight).sum(1), (predicted.square() * weight).sum(1)


@dataclass
class ResultErrors:
    """The observations of one result over a judging, trial by trial."""

    observations: list[Observation] = field(default_factory=list)

    def conclude(
        self, *, narrow: bool, comparable: bool = True, constants: StatisticalConstants = STATISTICS
    ) -> ErrorSummary | None:
        """What they say; `narrow` where the result's format is not float32, so that they cannot say `float32`. Not
        `comparable` are errors in float64: the reference has errors as large."""
        seen = [one for one in self.observations if len(one.elements)]
        if not seen:
            return None
        table = _Table.of(seen, constants)
        means = _means(table, seen, constants)
        margins = {"mean": means.margin, "rms": _ratio(table, SQUARE, constants), "rms without factor": 0.0}
        margins["rms without factor"] = _ratio(table.only_factored(), RESIDUAL, constants)
        form, margins["share"] = _largest_share(seen, constants)
        weight = float(table.weight.sum()) / max(1.0, float(table.elements.sum()))
        smallest = means.limit / weight if weight > 0 and math.isfinite(means.limit) else None
        if not comparable:
            finding, smallest = ErrorFinding.indistinguishable, None
        elif form is not None:
            finding = form
        elif margins["mean"] > 1:
            finding = ErrorFinding.biased
        elif max(margins["rms"], margins["rms without factor"]) > 1:
            finding = ErrorFinding.coarse
        else:
            blind = narrow or smallest is None or smallest > constants.visible_bias
            finding = ErrorFinding.indistinguishable if blind else ErrorFinding.float32
        count = max(1.0, float(table.elements.sum()))
        return ErrorSummary(
            elements=int(table.elements.sum()),
            share=_largest([one.candidate for one in seen], SHARE),
            rms=math.sqrt(float(table.candidate[:, SQUARE].sum()) / count),
            eager_rms=math.sqrt(float(table.eager[:, SQUARE].sum()) / count),
            mean=float(table.candidate[:, SUM].sum()) / count,
            eager_mean=float(table.eager[:, SUM].sum()) / count,
            ulp=_largest([one.candidate for one in seen], ULP),
            eager_ulp=_largest([one.eager for one in seen], ULP),
            finding=finding,
            smallest_bias=smallest,
            margins=margins,
        )


@dataclass(frozen=True)
class _Table:
    """All rows of a judging. Short ones are put together, across trials if need be."""

    elements: torch.Tensor
    weight: torch.Tensor
    candidate: torch.Tensor
    eager: torch.Tensor
    sequential: torch.Tensor
    factored: torch.Tensor

    @classmethod
    def of(cls, seen: Sequence[Observation], constants: StatisticalConstants) -> _Table:
        elements = torch.cat([one.elements for one in seen]).cpu()
        factored = torch.cat([torch.full((len(one.elements),), one.factored) for one in seen])
        groups = _groups(elements.tolist(), constants.least_row)
        numbers = torch.tensor(groups)
        kept = numbers >= 0
        most = int(numbers.max()) + 1 if bool(kept.any()) else 0

        def together(parts: list[torch.Tensor]) -> torch.Tensor:
            rows = torch.cat(parts).cpu().double()[kept]
            return torch.zeros(most, *rows.shape[1:], dtype=torch.float64).index_add_(0, numbers[kept], rows)

        alone = torch.zeros(most, dtype=torch.int64).index_add_(0, numbers[kept], torch.ones_like(numbers[kept])) == 1
        whole = torch.zeros(most, dtype=torch.int64).index_add_(0, numbers[kept], factored[kept].long()) == 1
        return cls(
            together([one.elements for one in seen]),
            together([one.weight for one in seen]),
            together([one.candidate[:, :ULP] for one in seen]),
            together([one.eager[:, :ULP] for one in seen]),
            together([one.sequential[:, :ULP] for one in seen]),
            alone & whole,
        )

    def only_factored(self) -> _Table:
        chosen = self.factored
        parts = (self.elements, self.weight, self.candidate, self.eager, self.sequential, self.factored)
        return _Table(*(part[chosen] for part in parts))


def _groups(elements: Sequence[float], least: int) -> list[int]:
    """The number of the row that each row belongs to when short ones are put together; -1 where nothing counts."""
    numbers, number, filled = [], 0, 0.0
    for count in elements:
        if count <= 0:
            numbers.append(-1)
        elif count >= least:
            if filled:
                number, filled = number + 1, 0.0
            numbers.append(number)
            number += 1
        else:
            numbers.append(number)
            filled += count
            if filled >= least:
                number, filled = number + 1, 0.0
    return numbers


def _ratio(table: _Table, column: int, constants: StatisticalConstants) -> float:
    """The median over rows of the candidate's rms beside the yardstick's, as a part of what is allowed."""
    full = table.elements >= constants.least_row
    if int(full.sum()) < constants.least_rows:
        return 0.0
    count = table.elements[full]
    own, eager, sequential = (
        (part[full][:, column] / count).sqrt() for part in (table.candidate, table.eager, table.sequential)
    )
    yardstick = torch.maximum(eager, sequential).clamp_min(constants.floor)
    return float((own / yardstick).median()) / constants.ratio


@dataclass(frozen=True)
class _Means:
    margin: float
    limit: float


def _means(table: _Table, seen: Sequence[Observation], constants: StatisticalConstants) -> _Means:
    """Rule 1. Standard errors are those of rows, or of trials where rows of a trial have errors in common."""
    if len(seen) < 2 * constants.least_rows:
        return _Means(0.0, math.inf)
    limits = []
    for name in ("eager", "sequential"):
        mean, error = _mean_and_error(getattr(table, name), table.elements, [getattr(o, name) for o in seen], seen)
        limits.append(abs(mean) + constants.standard_errors * error)
    mean = float(table.candidate[:, SUM].sum()) / max(1.0, float(table.elements.sum()))
    own = _error_of_bias(table, seen)
    limit = constants.mean + max(limits) + constants.standard_errors * own
    return _Means(abs(mean) / limit, limit)


def _mean_and_error(
    rows: torch.Tensor, elements: torch.Tensor, trials: Sequence[torch.Tensor], seen: Sequence[Observation]
) -> tuple[float, float]:
    """The mean of a yardstick's errors, and its standard error."""
    total = float(elements.sum())
    if total <= 0:
        return 0.0, 0.0
    mean = float(rows[:, SUM].sum()) / total
    sums, counts = _of_trials(trials), _of_trials([one.elements.unsqueeze(1) for one in seen])
    errors = (_error(rows[:, SUM] - mean * elements), _error(sums - mean * counts))
    return mean, max(errors) / total


def _error_of_bias(table: _Table, seen: Sequence[Observation]) -> float:
    """The standard error of a candidate's mean. A bias is in proportion to the reference, so that rows differ by it:
    what it explains is not random."""
    total, weight = float(table.elements.sum()), float(table.weight.sum())
    if total <= 0 or weight <= 0:
        return 0.0
    bias = float(table.candidate[:, SUM].sum()) / weight
    sums = _of_trials([one.candidate for one in seen])
    weights = _of_trials([one.weight.unsqueeze(1) for one in seen])
    return max(_error(table.candidate[:, SUM] - bias * table.weight), _error(sums - bias * weights)) / total


def _of_trials(parts: Sequence[torch.Tensor]) -> torch.Tensor:
    return torch.stack([part[:, SUM].sum() for part in parts]).cpu().double()


def _error(distances: torch.Tensor) -> float:
    """Of a sum of clusters, from how far each lies from what is expected of it."""
    clusters = len(distances)
    return math.sqrt(float(distances.square().sum()) * clusters / (clusters - 1)) if clusters > 1 else 0.0


def _largest(parts: Sequence[torch.Tensor], column: int) -> float:
    return float(torch.stack([part[:, column].amax() for part in parts]).max())


def _largest_share(seen: Sequence[Observation], constants: StatisticalConstants) -> tuple[ErrorFinding | None, float]:
    """The form whose predicted error the errors hold beyond doubt, and the largest share as a part of what is allowed.

    Of several the one whose share is nearest to 1 is named."""
    found: dict[str, float] = {}
    largest = 0.0
    for form in {form for one in seen for form in one.shares}:
        rows = [one.shares[form] for one in seen if form in one.shares]
        held, whole = (torch.cat([row[side] for row in rows]).cpu() for side in (0, 1))
        held, whole = held[whole > 0], whole[whole > 0]
        if len(whole) < constants.least_row:
            continue
        share = float(held.sum() / whole.sum())
        doubt = constants.standard_errors * math.sqrt(float(held.square().sum())) / float(whole.sum())
        margin = share / max(constants.share, doubt)
        largest = max(largest, margin)
        if margin > 1:
            found[form] = share
    if not found:
        return None, largest
    nearest = min(found, key=lambda form: abs(found[form] - 1))
    return ErrorFinding(nearest.split()[0]), largest
