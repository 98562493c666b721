"""Sums over time, for each head."""

import torch

from kernelwright.tasks import Task, tensor


def running_sum(x: torch.Tensor) -> torch.Tensor:
    return torch.cumsum(x, 1)


task = Task(
    running_sum,
    inputs={"x": tensor("batch", "length", "heads")},
    public=[{"batch": 4, "length": 512, "heads": 4}],
    hidden={"batch": (1, 8), "length": (40, 900), "heads": (1, 8)},
)
