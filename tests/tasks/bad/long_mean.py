"""A mean over so many values of one distribution that it is nearly always the same."""

import torch

from kernelwright.tasks import Task, tensor, uniform


def long_mean(x: torch.Tensor) -> torch.Tensor:
    return x.mean(-1)


task = Task(
    reference=long_mean,
    inputs={"x": tensor("rows", "cols", draw=uniform(0.9, 1.1))},
    public=[{"rows": 16, "cols": 60000}],
    hidden={"rows": (16, 40), "cols": (40000, 90000)},
)
