"""Softmax over the last axis."""

import torch

from kernelwright.tasks import Task, tensor


def softmax(x: torch.Tensor) -> torch.Tensor:
    return torch.softmax(x, dim=-1)


task = Task(
    reference=softmax,
    inputs={"x": tensor("rows", "cols")},
    public=[
        {"rows": 2048, "cols": 2048},
        {"rows": 128, "cols": 32000},
        {"rows": 16384, "cols": 250},
    ],
    hidden={"rows": (200, 9000), "cols": (300, 9000)},
)
