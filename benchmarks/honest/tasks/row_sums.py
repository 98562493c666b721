"""Sums of whole numbers along rows."""

import torch

from kernelwright.tasks import Task, integers, tensor


def row_sums(x: torch.Tensor) -> torch.Tensor:
    return x.sum(-1)


task = Task(
    reference=row_sums,
    inputs={"x": tensor("rows", "cols", draw=integers(-1000, 1000), dtype="int32")},
    public=[{"rows": 64, "cols": 512}, {"rows": 30, "cols": 1000}, {"rows": 500, "cols": 64}],
    hidden={"rows": (1, 1000), "cols": (1, 2000)},
)
