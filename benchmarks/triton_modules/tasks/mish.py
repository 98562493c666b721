"""Mish: x * tanh(softplus(x))."""

import torch
import torch.nn.functional as F

from kernelwright.tasks import Task, tensor


def mish(x: torch.Tensor) -> torch.Tensor:
    return F.mish(x)


task = Task(
    mish,
    inputs={"x": tensor("rows", "cols")},
    public=[{"rows": 512, "cols": 1024}],
    hidden={"rows": (60, 2000), "cols": (40, 2000)},
)
