"""Rows of ragged length, normalised by their root mean square."""

import torch

from kernelwright.tasks import Task, normal, tensor


def rmsnorm(x, weight, eps):
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps) * weight


task = Task(
    rmsnorm,
    inputs={"x": tensor("rows", "cols"), "weight": tensor("cols", draw=normal(1.0, 0.2)), "eps": 1e-6},
    public=[{"rows": 300, "cols": 64}, {"rows": 5, "cols": 4100}],
    hidden={"rows": (3, 40), "cols": (7, 3000)},
)
