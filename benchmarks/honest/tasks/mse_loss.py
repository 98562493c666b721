"""Mean squared error as one number."""

import torch
import torch.nn.functional as F

from kernelwright.tasks import Task, tensor


def mse_loss(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return F.mse_loss(x, y)


task = Task(
    reference=mse_loss,
    inputs={"x": tensor("rows", "cols"), "y": tensor("rows", "cols")},
    public=[{"rows": 64, "cols": 512}, {"rows": 30, "cols": 1000}, {"rows": 500, "cols": 64}],
    hidden={"rows": (1, 1000), "cols": (1, 2000)},
)
