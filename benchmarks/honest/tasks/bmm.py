"""Batched matrix product."""

import torch

from kernelwright.tasks import Task, normal, tensor


def bmm(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return torch.bmm(a, b)


task = Task(
    reference=bmm,
    inputs={"a": tensor("batch", "m", "k"), "b": tensor("batch", "k", "n", draw=normal(0.0, 0.1))},
    public=[
        {"batch": 4, "m": 32, "k": 64, "n": 48},
        {"batch": 1, "m": 100, "k": 40, "n": 80},
        {"batch": 16, "m": 16, "k": 128, "n": 8},
    ],
    hidden={"batch": (1, 16), "m": (1, 128), "k": (1, 256), "n": (1, 128)},
    work="batch * m * k * n",
)
