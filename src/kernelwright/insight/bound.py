"""The time that measured peaks allow for a workload: what must be moved and what must be multiplied."""

from __future__ import annotations

from dataclasses import dataclass

from kernelwright.devices.peaks_cpu import CpuPeaks
from kernelwright.tasks.cost import cost
from kernelwright.tasks.model import Task, Workload


@dataclass(frozen=True)
class Bound:
    """`bytes` and `operations` as `tasks.cost` counts them."""

    bytes: int
    operations: int
    moving: float
    computing: float

    @property
    def seconds(self) -> float:
        return max(self.moving, self.computing)


def bound(task: Task, workload: Workload, peaks: CpuPeaks) -> Bound:
    least = cost(task, workload)
    return Bound(
        bytes=least.moved,
        operations=least.operations,
        moving=least.moved / peaks.bandwidth,
        computing=least.operations / peaks.operations(workload.dtype),
    )
