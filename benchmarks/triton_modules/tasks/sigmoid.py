"""The logistic function."""

import torch

from kernelwright.tasks import Task, tensor


def sigmoid(x: torch.Tensor) -> torch.Tensor:
    return torch.sigmoid(x)


task = Task(
    sigmoid,
    inputs={"x": tensor("rows", "cols")},
    public=[{"rows": 512, "cols": 1024}],
    hidden={"rows": (60, 2000), "cols": (40, 2000)},
)
