"""Unbiased variance of each row."""

import torch

from kernelwright.tasks import Task, tensor


def variance(x: torch.Tensor) -> torch.Tensor:
    return x.var(-1)


task = Task(
    reference=variance,
    inputs={"x": tensor("rows", "cols")},
    public=[{"rows": 64, "cols": 512}, {"rows": 30, "cols": 1000}, {"rows": 500, "cols": 64}],
    hidden={"rows": (1, 1000), "cols": (2, 2000)},
)
