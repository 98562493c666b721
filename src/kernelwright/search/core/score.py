"""What a verdict is worth: pure functions of verdicts, so that a run can be scored again."""

from __future__ import annotations

import math
from collections.abc import Iterable

from kernelwright.insight.bottleneck import BEATEN
from kernelwright.judge.verdict import (
    AuthorVerdict,
    IntervalValue,
    Outcome,
    SpeedStatus,
    Verdict,
    WorkloadResult,
)


def score(verdict: Verdict) -> float | None:
    """The geometric mean over all workloads, hidden ones included, of the speedup that may be claimed.

    None where there is nothing to claim: not accepted, or the speed of some workload undecided.
    """
    if verdict.verdict is not Outcome.accepted or not all_measured(verdict.workloads):
        return None
    return _mean(best.speedup.low for result in verdict.workloads if (best := result.best_baseline))


def most(verdict: Verdict | AuthorVerdict) -> float | None:
    """As `score`, by the upper ends: what the speedup may be at most."""
    return _mean(best.speedup.high for result in verdict.workloads if (best := result.best_baseline))


def estimate(verdict: Verdict | AuthorVerdict) -> float | None:
    """By which parents and finalists are chosen, where a machine is too noisy for claims: medians, public workloads.

    It is never shown as a speedup, and nothing is called best because of it.
    """
    if verdict.verdict is not Outcome.accepted:
        return None
    return _mean(best.speedup.mid for r in verdict.workloads if not r.hidden and (best := r.best_baseline))


def all_measured(results: Iterable[WorkloadResult]) -> bool:
    statuses = [result.speed for result in results]
    return bool(statuses) and all(status is SpeedStatus.measured for status in statuses)


def fraction_of_bound(verdict: AuthorVerdict, bounds: dict[str, float]) -> float | None:
    """The part of the bound's speed that the slowest public workload reaches; None where no bound is known.

    A verdict on a GPU brings its bounds; those of a CPU are known beforehand.
    """
    return min(_fractions(verdict, bounds), default=None)


def beats_bound(verdict: AuthorVerdict, bounds: dict[str, float]) -> bool:
    """Whether some public workload is clearly faster than its bound, which is then none, on any workload.

    Nothing is faster than what it needs at least: the peak is too low that the bound was made from.
    """
    return max(_fractions(verdict, bounds), default=0.0) > BEATEN


def _fractions(verdict: AuthorVerdict, bounds: dict[str, float]) -> list[float]:
    return [
        least / result.seconds
        for result in verdict.workloads
        if not result.hidden and result.seconds
        if (least := result.bound.seconds if result.bound else bounds.get(result.label))
    ]


def pooled(earlier: Verdict, later: Verdict) -> Verdict:
    """Two judgings of one candidate as one: of each workload the first in which the baseline was quiet.

    That depends on the baseline alone, and the first such is taken, not the better: being judged more often gains
    nothing. What was once rejected stays so.
    """
    for outcome in (Outcome.rejected, Outcome.accepted):
        if (earlier.verdict is outcome) != (later.verdict is outcome):
            return earlier if earlier.verdict is outcome else later
    if later.verdict is not Outcome.accepted:
        return later
    before = {(r.label, r.hidden): r for r in earlier.workloads if r.settled}
    workloads = tuple(before.get((r.label, r.hidden), r) for r in later.workloads)
    domain = later.domain if later.domain is not None and not later.partial_domain else earlier.domain or later.domain
    kept: dict[str, object] = {"workloads": workloads, "domain": domain}
    if not later.errors:
        kept |= {"errors": earlier.errors, "public_errors": earlier.public_errors}
    return later.model_copy(update=kept)


def ratio(
    challenger: Verdict | AuthorVerdict, best: Verdict | AuthorVerdict, *, hidden: bool | None = None
) -> IntervalValue | None:
    """How many times faster than the best, over the workloads that both met, or the hidden or public ones of them.

    Each was timed in the same blocks as the same baseline, so that what the machine did meanwhile cancels. The two
    speedups are independent; their intervals add in quadrature, on a logarithmic scale.
    """
    theirs = {(r.label, r.hidden): r for r in best.workloads}
    logs = []
    for result in challenger.workloads:
        if hidden is not None and result.hidden is not hidden:
            continue
        other = theirs.get((result.label, result.hidden))
        pair = _same_baseline(result, other) if other else None
        if pair is None:
            continue
        (a, b) = pair
        down = math.hypot(math.log(a.mid / a.low), math.log(b.high / b.mid))
        up = math.hypot(math.log(a.high / a.mid), math.log(b.mid / b.low))
        logs.append((math.log(a.mid / b.mid), down, up))
    if not logs:
        return None
    n = len(logs)
    mid = sum(entry[0] for entry in logs) / n
    down, up = (math.hypot(*(entry[side] for entry in logs)) / n for side in (1, 2))
    return IntervalValue(low=math.exp(mid - down), mid=math.exp(mid), high=math.exp(mid + up))


def _same_baseline(ours: WorkloadResult, theirs: WorkloadResult) -> tuple[IntervalValue, IntervalValue] | None:
    if ours.speed is not SpeedStatus.measured or theirs.speed is not SpeedStatus.measured:
        return None
    found = {baseline.baseline: baseline.speedup for baseline in theirs.baselines}
    best = ours.best_baseline
    if best is None or best.baseline not in found:
        return None
    return best.speedup, found[best.baseline]


def _mean(values: Iterable[float]) -> float | None:
    logs = [math.log(value) for value in values if value > 0]
    return math.exp(math.fsum(logs) / len(logs)) if logs else None
