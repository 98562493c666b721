"""Where a proved kernel is used: the sizes for which it is right, and of these the ones for which it is faster.

A verdict has times at a few workloads, some of which are hidden. What may be said outside is the rule of
docs/decisions/0042: it depends on hidden workloads in one bit alone, whether all of them were faster, which the public
certificate says anyway.
"""

from __future__ import annotations

from statistics import median

from kernelwright.export.standalone.manifest import UseRegion
from kernelwright.judge.verdict import SpeedStanding, Verdict, WorkloadResult
from kernelwright.tasks.hidden import LEAST_WORK, MOST_WORK, work
from kernelwright.tasks.model import Task


def regions_of(task: Task, verdict: Verdict, dtype: str) -> tuple[UseRegion, ...]:
    """Empty where the kernel is not proved faster at any public workload of this dtype."""
    timed = [one for one in verdict.workloads if one.dtype == dtype]
    public = [one for one in timed if not one.hidden]
    exact = tuple(_at(one) for one in public if _faster(one))
    if not exact or not all(map(_faster, timed)) or not whole_domain(verdict):
        return exact
    works = [work(task, one.sizes) for one in public]
    usual = median(work(task, sizes) for sizes in task.public)
    least, most = min(*works, int(usual * LEAST_WORK)), max(*works, int(usual * MOST_WORK))
    return (UseRegion(dict(task.hidden), least, most), *exact)


def _at(result: WorkloadResult) -> UseRegion:
    return UseRegion({name: (size, size) for name, size in result.sizes.items()}, exactly=True)


def _faster(result: WorkloadResult) -> bool:
    return result.standing is SpeedStanding.faster


def whole_domain(verdict: Verdict) -> bool:
    return verdict.domain is not None and not verdict.partial_domain


def claimed(verdict: Verdict, dtype: str) -> float:
    """The least lower end of the speedup over the best baseline, over all workloads of a dtype that were faster."""
    ends = [
        one.best_baseline.speedup.low
        for one in verdict.workloads
        if one.dtype == dtype and _faster(one) and one.best_baseline is not None
    ]
    return min(ends, default=0.0)
