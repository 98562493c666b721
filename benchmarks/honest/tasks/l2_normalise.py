"""Rows of length one."""

import torch

from kernelwright.tasks import Task, tensor


def l2_normalise(x: torch.Tensor) -> torch.Tensor:
    return x / x.square().sum(-1, keepdim=True).sqrt()


task = Task(
    reference=l2_normalise,
    inputs={"x": tensor("rows", "cols")},
    public=[{"rows": 64, "cols": 512}, {"rows": 30, "cols": 1000}, {"rows": 500, "cols": 64}],
    hidden={"rows": (1, 1000), "cols": (1, 2000)},
)
