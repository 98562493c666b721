"""The square of ReLU."""

import torch

from kernelwright.tasks import Task, tensor


def relu_squared(x: torch.Tensor) -> torch.Tensor:
    return torch.relu(x).square()


task = Task(
    relu_squared,
    inputs={"x": tensor("rows", "cols")},
    public=[{"rows": 512, "cols": 1024}],
    hidden={"rows": (60, 2000), "cols": (40, 2000)},
)
