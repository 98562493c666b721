"""What a workload costs at least, however it is computed: bytes that must be moved and products that must be formed.

Importing this does not import torch; counting does.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from kernelwright.tasks.model import Task, TensorSpec, Workload


@dataclass(frozen=True)
class Cost:
    """`read`: every input that a result depends on, once. `written`: every result, once.

    `operations` are those of products, convolutions and attention in the reference, without steps that no result
    needs. A result that needs only part of an input (a gather) is counted too high.
    """

    read: int
    written: int
    operations: int

    @property
    def moved(self) -> int:
        return self.read + self.written

    @property
    def weight(self) -> int:
        """One number for how heavy a workload is, whether it moves or computes: bytes and operations."""
        return self.moved + self.operations


def cost(task: Task, workload: Workload) -> Cost:
    from kernelwright.tasks.drawing import signature
    from kernelwright.tasks.trace import record_sizes

    trace = record_sizes(task, workload)
    tensors = signature(task, workload).tensors
    read = sum(_nbytes(spec) for spec in tensors if spec.role == "inout" or spec.name in trace.read)
    written = sum(_nbytes(spec) for spec in tensors if spec.role in ("inout", "output"))
    return Cost(read, written, trace.flops)


def _nbytes(spec: TensorSpec) -> int:
    from kernelwright.tasks.reference import torch_dtype

    return math.prod(spec.shape) * torch_dtype(spec.dtype).itemsize
