"""What the errors of a candidate say over a whole judging: pure statistics, for any reference.

An error is measured on a random sample of the rows of every result, and counts towards the sign of the reference:

    z = error * sign(ref) / unit,   unit = max(u |ref|, s / 128, jumps)

with u the unit roundoff of the result's format, s the distance by which the judge's probes move the element, and
`jumps` what the other side of a mask would give. The yardstick is the worse of eager PyTorch and a reference with
sequential sums. A result is imprecise if one of these holds over a set of trials:

1. `biased`: |mean z| > MEAN + the yardstick's |mean| + STANDARD_ERRORS standard errors of means.
2. `coarse`: the median over rows of rms z / max(yardstick, FLOOR) > RATIO.
   Nine rows in ten may not exceed UPPER times as much: a median says nothing about fewer than half of them.
3. `coarse`: the same for what is left of z when each row's best common factor is taken out. The order in which a sum
   is added up changes the factor alone, so this stays sharp on long rows.
4. `tf32`, `2xtf32`, `bf16x3`: the share of that form's predicted error in the candidate's error is above SHARE. The
   error of factors that were shortened has share 1; the errors of float32 have share 0, whatever their size.

The sets are: all trials of a judging; those of each workload; those of all check points; and, for what one trial can
show, each check point. A kernel that is imprecise at some sizes alone would be diluted in the first. Each has limits of
its own (`ErrorLimits`): the fewer trials, the wider.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

import torch

from kernelwright.judge.oracle.errors.observations import (
    RESIDUAL,
    SHARE,
    SQUARE,
    STATISTICS,
    SUM,
    ULP,
    Observation,
)
from kernelwright.judge.oracle.errors.tables import RowTable, error_of_bias, mean_and_error, on_cpu
from kernelwright.judge.oracle.right.constants import ErrorLimits


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


class TrialSet(StrEnum):
    """Which trials are taken together."""

    judging = "judging"
    workload = "workload"
    points = "points"
    point = "point"

    @property
    def limits(self) -> ErrorLimits:
        match self:
            case TrialSet.judging:
                return STATISTICS.judging
            case TrialSet.workload | TrialSet.points:
                return STATISTICS.workload
            case TrialSet.point:
                return STATISTICS.point


RULES = ("mean", "rms", "rms without factor", "share")


@dataclass(frozen=True)
class ErrorSummary:
    """What a judging found in the errors of one result, and in which trials (`found_in`).

    `margins` are the rules' figures where 1 is the limit: the largest of the sets of each kind.
    """

    elements: int
    share: float
    rms: float
    eager_rms: float
    mean: float
    eager_mean: float
    ulp: float
    eager_ulp: float
    finding: ErrorFinding
    found_in: TrialSet
    smallest_bias: float | None
    margins: dict[TrialSet, dict[str, float]]


@dataclass
class ResultErrors:
    """The observations of one result over a judging: of timed workloads and of check points, by their labels."""

    workloads: dict[str, list[Observation]] = field(default_factory=dict)
    points: dict[str, list[Observation]] = field(default_factory=dict)

    def add(self, workload: str, observation: Observation, *, point: bool = False) -> None:
        (self.points if point else self.workloads).setdefault(workload, []).append(observation)

    def conclude(self, *, narrow: bool, comparable: bool = True) -> ErrorSummary | None:
        """What they say; `narrow` where the result's format is not float32, so that they cannot say `float32`. Not
        `comparable` are errors in float64: the reference has errors as large."""
        sets = list(self._sets())
        seen = sets[0][1]
        if not seen:
            return None
        examined = [(kind, examine(some, kind.limits)) for kind, some in sets]
        whole = examined[0][1]
        found_in, bad = next(((kind, one) for kind, one in examined if one.finding is not None), examined[0])
        blind = narrow or whole.smallest_bias is None or whole.smallest_bias > STATISTICS.visible_bias
        if not comparable:
            found_in, finding = TrialSet.judging, ErrorFinding.indistinguishable
        elif bad.finding is not None:
            finding = bad.finding
        else:
            finding = ErrorFinding.indistinguishable if blind else ErrorFinding.float32
        rows = RowTable.of(seen)
        count = max(1.0, float(rows.elements.sum()))
        return ErrorSummary(
            elements=int(rows.elements.sum()),
            # Every element was within its bounds, which are rounded to the result's format: in 16 bits to more than 1.
            share=min(1.0, _largest([one.candidate for one in seen], SHARE)),
            rms=math.sqrt(float(rows.candidate[:, SQUARE].sum()) / count),
            eager_rms=math.sqrt(float(rows.eager[:, SQUARE].sum()) / count),
            mean=float(rows.candidate[:, SUM].sum()) / count,
            eager_mean=float(rows.eager[:, SUM].sum()) / count,
            ulp=_largest([one.candidate for one in seen], ULP),
            eager_ulp=_largest([one.eager for one in seen], ULP),
            finding=finding,
            found_in=found_in,
            smallest_bias=whole.smallest_bias if comparable else None,
            margins=_largest_margins(examined),
        )

    def _sets(self) -> Iterator[tuple[TrialSet, list[Observation]]]:
        """All trials first."""
        timed, points = list(self.workloads.values()), list(self.points.values())
        flat = on_cpu([one for place in (*timed, *points) for one in place])
        yield TrialSet.judging, [one for one in flat if len(one.elements)]
        start = 0
        for kind, places in ((TrialSet.workload, timed), (TrialSet.point, points)):
            first = start
            for place in places:
                yield kind, [one for one in flat[start : start + len(place)] if len(one.elements)]
                start += len(place)
            if kind is TrialSet.point and points:
                yield TrialSet.points, [one for one in flat[first:start] if len(one.elements)]


@dataclass(frozen=True)
class Examined:
    """What one set of trials says: a finding that is imprecise, or none."""

    finding: ErrorFinding | None
    margins: dict[str, float]
    smallest_bias: float | None


def examine(seen: Sequence[Observation], limits: ErrorLimits) -> Examined:
    """The rules, over one set of trials."""
    if not seen:
        return Examined(None, dict.fromkeys(RULES, 0.0), None)
    table = RowTable.of(seen)
    mean, limit = _means(table, seen, limits)
    form, share = _largest_share(seen, limits)
    rms, without_factor = _ratio(table, SQUARE, limits), _ratio(table.only_factored(), RESIDUAL, limits)
    weight = float(table.weight.sum()) / max(1.0, float(table.elements.sum()))
    smallest = limit / weight if weight > 0 and math.isfinite(limit) else None
    finding = form
    if finding is None and mean > 1:
        finding = ErrorFinding.biased
    if finding is None and max(rms, without_factor) > 1:
        finding = ErrorFinding.coarse
    return Examined(finding, dict(zip(RULES, (mean, rms, without_factor, share), strict=True)), smallest)


def _largest_margins(examined: Sequence[tuple[TrialSet, Examined]]) -> dict[TrialSet, dict[str, float]]:
    found: dict[TrialSet, dict[str, float]] = {}
    for kind, one in examined:
        known = found.setdefault(kind, dict.fromkeys(RULES, 0.0))
        found[kind] = {rule: max(known[rule], one.margins[rule]) for rule in RULES}
    return found


def _ratio(table: RowTable, column: int, limits: ErrorLimits) -> float:
    """The candidate's rms beside the yardstick's, as a part of what is allowed: the median over rows, and what nine
    rows in ten stay below. A median alone says nothing about fewer than half of the rows."""
    full = table.elements >= STATISTICS.least_row
    if int(full.sum()) < limits.least_rows:
        return 0.0
    count = table.elements[full]
    own, eager, sequential = (
        (part[full][:, column] / count).sqrt() for part in (table.candidate, table.eager, table.sequential)
    )
    yardstick = torch.maximum(eager, sequential).clamp_min(STATISTICS.floor)
    ratios = (own / yardstick).sort().values
    typical = float(ratios.median()) / limits.ratio
    if len(ratios) < 10 * limits.least_rows:
        return typical
    return max(typical, float(ratios[len(ratios) * 9 // 10]) / (STATISTICS.upper * limits.ratio))


def _means(table: RowTable, seen: Sequence[Observation], limits: ErrorLimits) -> tuple[float, float]:
    """Rule 1: the mean as a part of the limit, and the limit. Standard errors are those of rows, or of trials where
    rows of a trial have errors in common."""
    if len(seen) < limits.least_trials:
        return 0.0, math.inf
    allowed = []
    for name in ("eager", "sequential"):
        mean, error = mean_and_error(getattr(table, name), table.elements, [getattr(o, name) for o in seen], seen)
        allowed.append(abs(mean) + limits.standard_errors * error)
    mean = float(table.candidate[:, SUM].sum()) / max(1.0, float(table.elements.sum()))
    limit = limits.mean + max(allowed) + limits.standard_errors * error_of_bias(table, seen)
    return abs(mean) / limit, limit


def _largest(parts: Sequence[torch.Tensor], column: int) -> float:
    return float(torch.stack([part[:, column].amax() for part in parts]).max())


def _largest_share(seen: Sequence[Observation], limits: ErrorLimits) -> tuple[ErrorFinding | None, float]:
    """The form whose predicted error the errors hold beyond doubt, and the largest share as a part of what is allowed.

    Of several the one whose share is nearest to 1 is named."""
    found: dict[str, float] = {}
    largest = 0.0
    for form in {form for one in seen for form in one.shares}:
        rows = [one.shares[form] for one in seen if form in one.shares]
        held, whole = (torch.cat([row[side] for row in rows]) for side in (0, 1))
        held, whole = held[whole > 0], whole[whole > 0]
        if len(whole) < limits.least_shares:
            continue
        share = float(held.sum() / whole.sum())
        doubt = limits.standard_errors * math.sqrt(float(held.square().sum())) / float(whole.sum())
        margin = share / max(limits.share, doubt)
        largest = max(largest, margin)
        if margin > 1:
            found[form] = share
    if not found:
        return None, largest
    nearest = min(found, key=lambda form: abs(found[form] - 1))
    return ErrorFinding(nearest.split()[0]), largest
