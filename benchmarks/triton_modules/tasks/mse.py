"""The mean of squared differences."""

import torch
import torch.nn.functional as F

from kernelwright.tasks import Task, tensor


def mse(x: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    return F.mse_loss(x, target)


task = Task(
    mse,
    inputs={"x": tensor("rows", "cols"), "target": tensor("rows", "cols")},
    public=[{"rows": 512, "cols": 1024}],
    hidden={"rows": (60, 2000), "cols": (40, 2000)},
)
