"""What the errors of a candidate say over a whole judging: pure statistics, for any reference.

An error is measured on a random sample of the rows of every result, and counts towards the sign of the reference:

    z = error * sign(ref) / unit,   unit = max(u |ref|, s / 128, jumps)

with u the unit roundoff of the result's format, s the distance by which the judge's probes move the element, and
`jumps` what the other side of a mask would give. The yardstick is the worse of eager PyTorch and a reference with
sequential sums. A result is imprecise if one of these holds over a set of trials:

1. `biased`: |mean z| > MEAN + the yardstick's |mean| + STANDARD_ERRORS standard errors of means.
2. `coarse`: the median over rows of rms z / max(yardstick, FLOOR) > RATIO.
   In a typical trial nine rows in ten may not exceed UPPER times as much: a median says nothing about fewer than
   half of them.
3. `coarse`: the same for what is left of z when each row's best common factor is taken out. The order in which a sum
   is added up changes the factor alone, so this stays sharp on long rows.
4. `tf32`, `2xtf32`, `bf16x3`: the share of that form's predicted error in the candidate's error is above SHARE. The
   error of factors that were shortened has share 1; the errors of float32 have share 0, whatever their size.

The sets are: all trials of a judging; those of each workload; those of all check points, and of the half of them at
which a size is larger or smaller; and, for shares alone, each check point. A kernel that is imprecise at some sizes
alone would be diluted in the first. Each has limits of its own (`ErrorLimits`): the fewer trials, the wider.

All rows of a trial may share one rounding (of a norm over the whole tensor), which is large or small by luck, and so is
the yardstick's. So rules 1 to 3 need several trials, and in the smaller sets a yardstick is at least as large as the
typical one of the set; for nine rows in ten of a trial, as the typical one of the trial.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from statistics import median

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
from kernelwright.tasks.model import Workload


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
    """The observations of one result over a judging: of timed workloads and of check points."""

    workloads: dict[Workload, list[Observation]] = field(default_factory=dict)
    points: dict[Workload, list[Observation]] = field(default_factory=dict)

    def add(self, workload: Workload, observation: Observation, *, point: bool = False) -> None:
        (self.points if point else self.workloads).setdefault(workload, []).append(observation)

    def conclude(self, *, narrow: bool, comparable: bool = True) -> ErrorSummary | None:
        """What they say; `narrow` where the result's format is not float32, so that they cannot say `float32`. Not
        `comparable` are errors in float64: the reference has errors as large."""
        sets = list(self._sets())
        seen = sets[0][1]
        if not seen:
            return None
        examined = [(kind, examine(some, kind)) for kind, some in sets]
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
            found = []
            for place in places:
                found.append([one for one in flat[start : start + len(place)] if len(one.elements)])
                start += len(place)
            yield from ((kind, one) for one in found)
        for chosen in _parts_of([workload.size_map for workload in self.points]):
            yield TrialSet.points, [one for place in chosen for one in found[place]]


def _parts_of(points: Sequence[Mapping[str, int]]) -> Iterator[list[int]]:
    """All check points, and those at which a size is above, or not above, its median: by their numbers."""
    if not points:
        return
    yield list(range(len(points)))
    for name in points[0]:
        middle = median(point[name] for point in points)
        for above in (True, False):
            part = [number for number, point in enumerate(points) if (point[name] > middle) is above]
            if part and len(part) < len(points):
                yield part


@dataclass(frozen=True)
class Examined:
    """What one set of trials says: a finding that is imprecise, or none."""

    finding: ErrorFinding | None
    margins: dict[str, float]
    smallest_bias: float | None


def examine(seen: Sequence[Observation], kind: TrialSet) -> Examined:
    """The rules, over one set of trials."""
    limits = kind.limits
    if not seen:
        return Examined(None, dict.fromkeys(RULES, 0.0), None)
    table = RowTable.of(seen)
    mean, limit = _means(table, seen, limits)
    form, share = _largest_share(seen, limits)
    rms, without_factor = 0.0, 0.0
    if several(seen, limits.least_trials):
        part = kind is not TrialSet.judging
        rms, without_factor = (
            _ratio(rows, column, limits, at_least_typical=part)
            for rows, column in ((table, SQUARE), (table.only_factored(), RESIDUAL))
        )
        rms = max(rms, _upper_ratio(seen, limits))
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


def several(seen: Sequence[Observation], least: int) -> bool:
    """Whether rows come from so many trials, or from as many as are not outweighed by others. Where a result has few
    elements, its rows are put together from several trials anyway."""
    rows = [len(one.elements) for one in seen]
    return sum(rows) ** 2 >= least * sum(count * count for count in rows)


def _ratio(table: RowTable, column: int, limits: ErrorLimits, *, at_least_typical: bool) -> float:
    """The median over rows of the candidate's rms beside the yardstick's, as a part of what is allowed."""
    full = table.elements >= STATISTICS.least_row
    if int(full.sum()) < limits.least_rows:
        return 0.0
    count = table.elements[full]
    own, eager, sequential = (
        (part[full][:, column] / count).sqrt() for part in (table.candidate, table.eager, table.sequential)
    )
    yardstick = torch.maximum(eager, sequential)
    floor = max(STATISTICS.floor, float(yardstick.median())) if at_least_typical else STATISTICS.floor
    yardstick = yardstick.clamp_min(floor)
    return float((own / yardstick).median()) / limits.ratio


def _upper_ratio(seen: Sequence[Observation], limits: ErrorLimits) -> float:
    """What nine rows in ten of a trial stay below, in the typical trial. Rows of one trial may share a rounding, of a
    sum over everything, so that single trials say nothing here. Where all rows share a few roundings (of the channels
    of a batch norm), the yardstick of one is small by luck: it counts as no less than the typical one of the trial."""
    found = []
    for one in seen:
        full = one.elements >= STATISTICS.least_row
        if int(full.sum()) < STATISTICS.upper_rows:
            continue
        count = one.elements[full]
        own, eager, sequential = (
            (part[full][:, SQUARE] / count).sqrt() for part in (one.candidate, one.eager, one.sequential)
        )
        yardstick = torch.maximum(eager, sequential)
        floor = max(STATISTICS.floor, float(yardstick.median()))
        ratios = (own / yardstick.clamp_min(floor)).sort().values
        found.append(float(ratios[len(ratios) * 9 // 10]))
    if len(found) < limits.least_trials:
        return 0.0
    return sorted(found)[len(found) // 2] / (STATISTICS.upper * limits.ratio)


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
