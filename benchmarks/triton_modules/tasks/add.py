"""The sum of two vectors."""

import torch

from kernelwright.tasks import Task, tensor


def add(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return x + y


task = Task(
    add,
    inputs={"x": tensor("elements"), "y": tensor("elements")},
    public=[{"elements": 98_432}],
    hidden={"elements": (1000, 200_000)},
)
