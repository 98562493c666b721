"""Huber loss, element by element."""

import torch
import torch.nn.functional as F

from kernelwright.tasks import Task, tensor


def huber(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return F.huber_loss(x, y, reduction="none")


task = Task(
    reference=huber,
    inputs={"x": tensor("rows", "cols"), "y": tensor("rows", "cols")},
    public=[{"rows": 64, "cols": 512}, {"rows": 30, "cols": 1000}, {"rows": 500, "cols": 64}],
    hidden={"rows": (1, 1000), "cols": (1, 2000)},
    dtypes=("float32", "float16"),
)
