"""What results come to: pure functions of rows.

Every task weighs the same, however many samples it has. A rate counts every sample that was planned: one that was
rejected, undecided, failed or not judged yet is one that is not right, and a speed that is undecided is not fast. Only
a task that could not be opened, which no candidate can cause, is left out. A mean of speeds is over the tasks that have
one, and says how many those are. Each comes with a 95% interval from a bootstrap over tasks.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

from kernelwright.benchmark.results import (
    LARGEST,
    RejectionClass,
    ResultPart,
    Results,
    RowOutcome,
    SampleCost,
    SampleRow,
    SpeedOver,
    WorkloadRow,
)
from kernelwright.judge.verdict import SpeedStatus

EAGER = "eager"
SPEEDS = (1.0, 1.5, 2.0)  # p of fast_p
NEAR_BOUND = 0.95  # of the bound's speed: nothing can be much faster, and the baseline may be there already
BEATS_BOUND = 1.05  # of it: such a bound is none
ATTEMPTS = (1, 2, 5, 10, 20, 50, 100)  # k of pass@k
RESAMPLES = 1000
SEED = 20


class MetricEstimate(ResultPart):
    """`low` and `high`: the 95% interval over tasks; `tasks`: how many have a part in the value. Null: none has."""

    value: float | None
    low: float | None = None
    high: float | None = None
    tasks: int = 0


class Summary(ResultPart):
    """The metrics of a set of tasks: one, a category, or all."""

    name: str
    tasks: int
    unopened: int
    samples: int
    judged: int
    undecided: int
    correct: MetricEstimate
    pass_at: dict[int, MetricEstimate]
    fast: dict[float, MetricEstimate]
    fast_eager: dict[float, MetricEstimate]
    speedup: MetricEstimate
    speedup_eager: MetricEstimate
    with_fallback: MetricEstimate
    sol: MetricEstimate
    hidden_right: MetricEstimate
    hidden_fast: MetricEstimate
    error_ratio: MetricEstimate
    ties: int
    suspects: int
    library: int  # right samples for which torch carries out some operators
    rejections: dict[RejectionClass, int]
    cost: SampleCost


@dataclass(frozen=True)
class TaskSamples:
    """A task with the rows of its samples; those that were not judged have none."""

    name: str
    category: str
    samples: int
    rows: tuple[SampleRow, ...]

    @property
    def weight(self) -> int:
        """What a share of this task's samples is a share of. A task without a candidate is one that is not right."""
        return max(1, self.samples)

    @cached_property
    def right(self) -> int:
        return sum(is_right(row) for row in self.rows)


def is_right(row: SampleRow) -> bool:
    """Accepted, over the whole of what the task declares."""
    return row.outcome is RowOutcome.accepted and not row.partial_domain


def is_tie(workload: WorkloadRow) -> bool:
    """At the bound, so that being no faster than a baseline that is there too is not a failure."""
    return workload.of_bound is not None and NEAR_BOUND <= workload.of_bound <= BEATS_BOUND


def claim(row: SampleRow, over: str | None = None, *, hidden: bool | None = None) -> float | None:
    """The geometric mean over workloads of the speedup that may be claimed over the best baseline, or over a named one;
    of public or hidden workloads alone, if `hidden` says so. A tie counts as 1 where less could be claimed. None where
    there is nothing to claim: not right, or the speed of some workload undecided."""
    if not is_right(row):
        return None
    workloads = [one for one in row.workloads if hidden is None or one.hidden is hidden]
    lows = [_low(one, over) for one in workloads]
    known = [low for low in lows if low is not None]
    if not known or len(known) < len(lows):
        return None
    return math.exp(math.fsum(map(math.log, known)) / len(known))


def _low(workload: WorkloadRow, over: str | None) -> float | None:
    if workload.speed is not SpeedStatus.measured:
        return None
    found = [one for one in workload.baselines if _compared(one, over)]
    low = min((one.speedup.low for one in found), default=None)
    if low is None:
        return None
    return max(low, 1.0) if is_tie(workload) else low


def _compared(one: SpeedOver, over: str | None) -> bool:
    return one.claimable if over is None else one.baseline == over


def is_fast(row: SampleRow, p: float, over: str | None = None) -> bool:
    """Whether at least p times may be claimed. A tie counts as 1: it is fast for p = 1, and for no larger p."""
    found = claim(row, over)
    return found is not None and found >= p


def sol(row: SampleRow) -> float | None:
    """The mean over its workloads of 0.5 at the baseline, 1 at the bound."""
    if claim(row) is None:
        return None
    found = [one.sol for one in row.workloads if one.sol is not None]
    return math.fsum(found) / len(found) if found else None


def error_ratio(row: SampleRow) -> float | None:
    """The worst of its results' errors over eager's."""
    found = [one.rms / one.eager_rms for one in row.errors if one.rms > 0 and one.eager_rms > 1 / LARGEST]
    return max(found, default=None) if is_right(row) else None


def pass_at(samples: int, right: int, k: int) -> float:
    """The chance that one of k samples is right, drawn without putting back from these: the unbiased estimator."""
    if not 0 <= right <= samples or not 1 <= k <= samples:
        raise ValueError(f"pass@{k} of {right} right in {samples}")
    return 1.0 - math.comb(samples - right, k) / math.comb(samples, k)


@dataclass(frozen=True)
class RatioPart:
    """What one task adds to a ratio of sums."""

    over: float
    under: float


def estimated(
    parts: Sequence[RatioPart], of: Callable[[float], float] = lambda value: value, resamples: int | None = None
) -> MetricEstimate:
    """The ratio of sums, through `of`, and its interval when tasks are drawn again with putting back."""
    tasks = sum(part.under > 0 for part in parts)
    if not tasks:
        return MetricEstimate(value=None)
    value = of(_ratio(parts))
    if len(parts) == 1:  # of one task there is nothing to draw
        return MetricEstimate(value=value, tasks=1)
    draw = random.Random(SEED)
    drawn = (draw.choices(parts, k=len(parts)) for _ in range(resamples or RESAMPLES))
    again = sorted(of(_ratio(chosen)) for chosen in drawn if _under(chosen) > 0)
    low, high = (again[min(len(again) - 1, int(share * len(again)))] for share in (0.025, 0.975))
    return MetricEstimate(value=value, low=min(low, value), high=max(high, value), tasks=tasks)


def _ratio(parts: Sequence[RatioPart]) -> float:
    return math.fsum(part.over for part in parts) / _under(parts)


def _under(parts: Sequence[RatioPart]) -> float:
    return math.fsum(part.under for part in parts)


def _share(tasks: Sequence[TaskSamples], holds: Callable[[SampleRow], bool]) -> MetricEstimate:
    return estimated([RatioPart(sum(map(holds, task.rows)) / task.weight, 1) for task in tasks])


def _of_those(
    tasks: Sequence[TaskSamples], under: Callable[[SampleRow], bool], holds: Callable[[SampleRow], bool]
) -> MetricEstimate:
    """The share of samples that hold among those that are asked, each task weighing as much as its share of them."""
    parts = []
    for task in tasks:
        asked = [row for row in task.rows if under(row)]
        parts.append(RatioPart(sum(map(holds, asked)) / task.weight, len(asked) / task.weight))
    return estimated(parts)


def _mean(
    tasks: Sequence[TaskSamples], of: Callable[[SampleRow], float | None], *, geometric: bool = True
) -> MetricEstimate:
    """The mean over tasks of the mean over a task's samples that have a value."""
    parts = []
    for task in tasks:
        found = [value for row in task.rows if (value := of(row)) is not None]
        logs = [math.log(value) if geometric else value for value in found]
        parts.append(RatioPart(math.fsum(logs) / len(logs), 1) if logs else RatioPart(0, 0))
    return estimated(parts, math.exp) if geometric else estimated(parts)


def _with_fallback(tasks: Sequence[TaskSamples]) -> MetricEstimate:
    """What a user gets who takes the fastest sample where it is shown to be faster, and the baseline elsewhere."""
    best = [max((found for row in task.rows if (found := claim(row)) is not None), default=1.0) for task in tasks]
    return estimated([RatioPart(math.log(max(1.0, value)), 1) for value in best], math.exp)


def summary(name: str, tasks: Sequence[TaskSamples], unopened: int = 0) -> Summary:
    rows = [row for task in tasks for row in task.rows]
    fewest = min((task.samples for task in tasks if task.samples), default=0)
    undecided = [row for row in rows if is_right(row) and claim(row) is None]
    counts = Counter[RejectionClass]()
    for row in rows:
        counts.update(row.rejections)
    return Summary(
        name=name,
        tasks=len(tasks),
        unopened=unopened,
        samples=sum(task.samples for task in tasks),
        judged=len(rows),
        undecided=sum(row.outcome is RowOutcome.undecided for row in rows) + len(undecided),
        correct=_share(tasks, is_right),
        pass_at={k: _pass_at(tasks, k) for k in ATTEMPTS if k <= fewest},
        fast={p: _share(tasks, lambda row, p=p: is_fast(row, p)) for p in SPEEDS},  # type: ignore[misc]
        fast_eager={p: _share(tasks, lambda row, p=p: is_fast(row, p, EAGER)) for p in SPEEDS},  # type: ignore[misc]
        speedup=_mean(tasks, claim),
        speedup_eager=_mean(tasks, lambda row: claim(row, EAGER)),
        with_fallback=_with_fallback(tasks),
        sol=_mean(tasks, sol, geometric=False),
        hidden_right=_of_those(tasks, lambda row: row.right_on_public is True, is_right),
        hidden_fast=_of_those(tasks, _fast_on_public, _fast_on_hidden),
        error_ratio=_mean(tasks, error_ratio),
        ties=sum(any(map(is_tie, row.workloads)) for row in rows if claim(row) is not None),
        suspects=sum(row.suspect for row in rows),
        library=sum(bool(row.library) and row.outcome is RowOutcome.accepted for row in rows),
        rejections={kind: counts[kind] for kind in RejectionClass if counts[kind]},
        cost=_cost(rows),
    )


def _pass_at(tasks: Sequence[TaskSamples], k: int) -> MetricEstimate:
    return estimated([RatioPart(pass_at(task.samples, task.right, k) if task.samples else 0.0, 1) for task in tasks])


def _fast_on_public(row: SampleRow) -> bool:
    found = claim(row, hidden=False)
    return found is not None and found >= 1 and any(one.hidden for one in row.workloads)


def _fast_on_hidden(row: SampleRow) -> bool:
    found = claim(row, hidden=True)
    return found is not None and found >= 1


def _cost(rows: Sequence[SampleRow]) -> SampleCost:
    return SampleCost(
        evaluations=sum(row.cost.evaluations for row in rows),
        wall_seconds=math.fsum(row.cost.wall_seconds for row in rows),
        device_seconds=math.fsum(row.cost.device_seconds for row in rows),
        tokens=sum(row.cost.tokens for row in rows),
        usd=math.fsum(row.cost.usd for row in rows),
        unpriced_calls=sum(row.cost.unpriced_calls for row in rows),
    )


def opened_tasks(results: Results) -> list[TaskSamples]:
    """All that count, in the plan's order."""
    rows: dict[str, list[SampleRow]] = {}
    for row in results.rows:
        rows.setdefault(row.task, []).append(row)
    return [
        TaskSamples(
            task.name,
            task.category,
            task.samples,
            tuple(sorted(rows.get(task.name, ()), key=lambda row: row.sample)),
        )
        for task in results.plan.tasks
        if task.name not in results.unopened
    ]


class Metrics(ResultPart):
    """All that a leaderboard shows of one results file."""

    overall: Summary
    categories: tuple[Summary, ...]
    tasks: tuple[Summary, ...]


def metrics(results: Results) -> Metrics:
    tasks = opened_tasks(results)
    left_out = Counter(task.category for task in results.plan.tasks if task.name in results.unopened)
    categories = list(dict.fromkeys(task.category for task in results.plan.tasks))
    return Metrics(
        overall=summary("all", tasks, len(results.unopened)),
        categories=tuple(
            summary(category, [task for task in tasks if task.category == category], left_out[category])
            for category in categories
        ),
        tasks=tuple(summary(task.name, [task]) for task in tasks),
    )
