"""An epsilon so small that nobody sees it missing."""

import torch

from kernelwright.tasks import Task, tensor


def tiny_epsilon(x: torch.Tensor, eps: float) -> torch.Tensor:
    return x / (x.abs() + 1 + eps)


task = Task(
    reference=tiny_epsilon,
    inputs={"x": tensor("rows", "cols"), "eps": 1e-12},
    public=[{"rows": 256, "cols": 512}],
    hidden={"rows": (16, 900), "cols": (16, 900)},
)
