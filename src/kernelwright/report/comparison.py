"""Two results side by side: what was the same about how they were judged, and which is faster where.

Speedups of two runs may be compared where each was timed beside the same baseline, of the same task, on the same kind
of device, with the same threads, by the same judge and with the same PyTorch: the baseline is what both have in common.
Where one of these differs it is said, and nothing is put into one number.
"""

from __future__ import annotations

import math
from enum import StrEnum

from kernelwright.errors import KernelwrightError
from kernelwright.judge.verdict import IntervalValue, SpeedStatus, VerdictPart, WorkloadResult
from kernelwright.report.differences import source_diff
from kernelwright.report.model import KernelView, RunView, SourceDiff, WorkloadView

UNKNOWN = "not known"


class Faster(StrEnum):
    """`undecided`: the interval of the ratio holds 1, or a speed is. `not_compared`: conditions differ."""

    first = "first"
    second = "second"
    undecided = "undecided"
    not_compared = "not_compared"


class Condition(VerdictPart):
    """Something about how both were judged. `matters`: a ratio would mean nothing where it differs."""

    what: str
    first: str
    second: str
    matters: bool

    @property
    def same(self) -> bool:
        return self.first == self.second


class ComparedWorkload(VerdictPart):
    """A public workload that both met. Speedups are over `baseline`, the one over which the first may claim least;
    `ratio` is how many times as fast as the first the second is."""

    workload: str
    dtype: str
    baseline: str | None
    first: IntervalValue | None
    second: IntervalValue | None
    ratio: IntervalValue | None
    faster: Faster
    why: str = ""


class ComparedRun(VerdictPart):
    name: str
    task: str
    candidate: str
    standing: str
    why: str
    score: float | None
    hidden: int
    hidden_claim: float | None


class RunComparison(VerdictPart):
    """`comparable`: nothing that matters differs. `ratio` is over all workloads, and None otherwise."""

    first: ComparedRun
    second: ComparedRun
    conditions: tuple[Condition, ...]
    comparable: bool
    workloads: tuple[ComparedWorkload, ...]
    only_first: tuple[str, ...]
    only_second: tuple[str, ...]
    ratio: IntervalValue | None
    faster: Faster

    @property
    def differing(self) -> tuple[Condition, ...]:
        return tuple(one for one in self.conditions if not one.same)


def compare(first: RunView, second: RunView) -> RunComparison:
    one, other = _best(first), _best(second)
    conditions = _conditions(first, second)
    comparable = all(condition.same or not condition.matters for condition in conditions)
    theirs = {_key(workload): workload for workload in other.public}
    ours = {_key(workload): workload for workload in one.public}
    shared = [_compared(workload, theirs[key], comparable) for key, workload in ours.items() if key in theirs]
    whole = comparable and ours.keys() == theirs.keys()
    total = _mean([found.ratio for found in shared]) if whole else None
    return RunComparison(
        first=_compared_run(first, one),
        second=_compared_run(second, other),
        conditions=conditions,
        comparable=comparable,
        workloads=tuple(shared),
        only_first=tuple(workload.name for key, workload in ours.items() if key not in theirs),
        only_second=tuple(workload.name for key, workload in theirs.items() if key not in ours),
        ratio=total,
        faster=Faster.not_compared if not comparable else _faster(total),
    )


def compared_sources(first: RunView, second: RunView) -> SourceDiff:
    one, other = _best(first), _best(second)
    return source_diff(one.files, other.files, first.name, second.name)


def _best(run: RunView) -> KernelView:
    if run.best is None:
        raise KernelwrightError(f"{run.name}: has no best to compare: {'; '.join(run.no_best)}")
    return run.best


def _key(workload: WorkloadView) -> tuple[str, str]:
    return workload.result.label, workload.result.dtype


def _compared_run(run: RunView, best: KernelView) -> ComparedRun:
    return ComparedRun(
        name=run.name,
        task=run.task,
        candidate=best.id,
        standing=best.standing.value,
        why=best.why,
        score=best.score,
        hidden=best.hidden.judged,
        hidden_claim=best.hidden.claim,
    )


def _conditions(first: RunView, second: RunView) -> tuple[Condition, ...]:
    one, other = _best(first), _best(second)
    here, there = (best.certificates[0].environment if best.certificates else None for best in (one, other))

    def condition(what: str, ours: object, theirs: object, *, matters: bool = True) -> Condition:
        return Condition(what=what, first=_said(ours), second=_said(theirs), matters=matters)

    return (
        condition("task", first.task, second.task),
        condition("task's files", first.task_digest[:16], second.task_digest[:16]),
        condition("device", one.conditions.device, other.conditions.device),
        condition("threads", one.conditions.threads, other.conditions.threads),
        condition("baselines", ", ".join(first.baselines), ", ".join(second.baselines)),
        condition("judge", one.conditions.judge_version, other.conditions.judge_version),
        condition("judge's code", here and here.judge_code[:16], there and there.judge_code[:16], matters=False),
        condition("PyTorch", here and here.torch, there and there.torch),
        condition("driver", one.conditions.driver, other.conditions.driver),
        condition("compiler", one.conditions.compiler, other.conditions.compiler, matters=False),
        condition("contract", one.contract, other.contract, matters=False),
        condition("isolation", one.conditions.sandbox, other.conditions.sandbox, matters=False),
    )


def _said(value: object) -> str:
    return UNKNOWN if value is None or value == "" else str(value)


def _compared(ours: WorkloadView, theirs: WorkloadView, comparable: bool) -> ComparedWorkload:
    mine, other = ours.result, theirs.result
    chosen = mine.best_baseline
    name = chosen.baseline if chosen else None
    same = next((one for one in other.baselines if one.baseline == name), None)
    ratio, why = None, ""
    if not comparable:
        why = "judged under different conditions"
    elif chosen is None or same is None:
        why = "no baseline in common"
    elif not _measured(mine) or not _measured(other):
        why = "a speed is undecided"
    else:
        ratio = _ratio(chosen.speedup, same.speedup)
    return ComparedWorkload(
        workload=ours.name,
        dtype=mine.dtype,
        baseline=name,
        first=chosen.speedup if chosen else None,
        second=same.speedup if same else None,
        ratio=ratio,
        faster=Faster.not_compared if not comparable else _faster(ratio),
        why=why,
    )


def _measured(result: WorkloadResult) -> bool:
    return result.speed is SpeedStatus.measured


def _ratio(first: IntervalValue, second: IntervalValue) -> IntervalValue:
    """Two independent speedups over one baseline: intervals add in quadrature on a logarithmic scale."""
    down = math.hypot(math.log(second.mid / second.low), math.log(first.high / first.mid))
    up = math.hypot(math.log(second.high / second.mid), math.log(first.mid / first.low))
    return _interval(math.log(second.mid / first.mid), down, up)


def _interval(mid: float, down: float, up: float) -> IntervalValue:
    return IntervalValue(low=math.exp(mid - down), mid=math.exp(mid), high=math.exp(mid + up))


def _mean(ratios: list[IntervalValue | None]) -> IntervalValue | None:
    """The geometric mean over workloads; None where one of them is not decided enough to have a ratio."""
    known = [one for one in ratios if one is not None]
    if not known or len(known) != len(ratios):
        return None
    mids = [math.log(one.mid) for one in known]
    down = math.hypot(*(math.log(one.mid / one.low) for one in known)) / len(known)
    up = math.hypot(*(math.log(one.high / one.mid) for one in known)) / len(known)
    return _interval(math.fsum(mids) / len(mids), down, up)


def _faster(ratio: IntervalValue | None) -> Faster:
    if ratio is None or ratio.low <= 1 <= ratio.high:
        return Faster.undecided
    return Faster.second if ratio.low > 1 else Faster.first
