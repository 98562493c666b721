"""The time that measured peaks allow for a workload: what must be moved and what must be multiplied."""

from __future__ import annotations

import math
from dataclasses import dataclass

from kernelwright.devices.peaks_cpu import CpuPeaks
from kernelwright.insight.trace import record_sizes
from kernelwright.tasks.drawing import signature
from kernelwright.tasks.model import Task, TensorSpec, Workload
from kernelwright.tasks.reference import torch_dtype


@dataclass(frozen=True)
class Bound:
    """`bytes`: every input that a result depends on once, every output once, what changes in place twice.

    `operations` are those of products, convolutions and attention in the reference, without steps that no result
    needs. A result that needs only part of an input (a gather) is bounded too high.
    """

    bytes: int
    operations: int
    moving: float
    computing: float

    @property
    def seconds(self) -> float:
        return max(self.moving, self.computing)


def bound(task: Task, workload: Workload, peaks: CpuPeaks) -> Bound:
    trace = record_sizes(task, workload)
    moved = sum(_passes(spec, trace.read) * _nbytes(spec) for spec in signature(task, workload).tensors)
    return Bound(
        bytes=moved,
        operations=trace.flops,
        moving=moved / peaks.bandwidth,
        computing=trace.flops / peaks.operations(workload.dtype),
    )


def _passes(spec: TensorSpec, read: tuple[str, ...]) -> int:
    if spec.role == "output":
        return 1
    if spec.role == "inout":
        return 2
    return 1 if spec.name in read else 0


def _nbytes(spec: TensorSpec) -> int:
    return math.prod(spec.shape) * torch_dtype(spec.dtype).itemsize
