"""A ReLU of what is always negative."""

import torch

from kernelwright.tasks import Task, tensor


def negative_relu(x: torch.Tensor) -> torch.Tensor:
    return torch.relu(-x.abs() - 1)


task = Task(
    reference=negative_relu,
    inputs={"x": tensor("rows", "cols")},
    public=[{"rows": 256, "cols": 512}],
    hidden={"rows": (16, 900), "cols": (16, 900)},
)
