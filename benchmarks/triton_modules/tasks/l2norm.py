"""Rows divided by their length."""

import torch

from kernelwright.tasks import Task, tensor


def l2norm(x: torch.Tensor) -> torch.Tensor:
    return x * torch.rsqrt(x.square().sum(-1, keepdim=True) + 1e-6)


task = Task(
    l2norm,
    inputs={"x": tensor("rows", "cols")},
    public=[{"rows": 512, "cols": 1024}],
    hidden={"rows": (60, 2000), "cols": (40, 2000)},
)
