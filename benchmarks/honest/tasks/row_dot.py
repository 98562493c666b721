"""The product of each row of one matrix with that of another."""

import torch

from kernelwright.tasks import Task, normal, tensor


def row_dot(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return (x * y).sum(-1)


task = Task(
    reference=row_dot,
    inputs={"x": tensor("rows", "cols"), "y": tensor("rows", "cols", draw=normal())},
    public=[{"rows": 64, "cols": 512}, {"rows": 30, "cols": 1000}, {"rows": 500, "cols": 64}],
    hidden={"rows": (1, 1000), "cols": (1, 2000)},
    dtypes=("float32", "float64"),
)
