"""Rows that are nearly the same: a kernel may compute one of them."""

import torch

from kernelwright.tasks import Task, normal, tensor


def same_rows(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return weight + 1e-4 * torch.tanh(x)


task = Task(
    reference=same_rows,
    inputs={"x": tensor("rows", "cols"), "weight": tensor("cols", draw=normal(1.0, 0.2))},
    public=[{"rows": 256, "cols": 512}],
    hidden={"rows": (16, 900), "cols": (16, 900)},
)
