"""Dynamic tanh: weight * tanh(alpha * x) + bias."""

import torch

from kernelwright.tasks import Task, tensor


def dynamic_tanh(x: torch.Tensor, alpha: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    return weight * torch.tanh(alpha * x) + bias


task = Task(
    dynamic_tanh,
    inputs={"x": tensor("rows", "cols"), "alpha": tensor(1), "weight": tensor("cols"), "bias": tensor("cols")},
    public=[{"rows": 512, "cols": 1024}],
    hidden={"rows": (60, 2000), "cols": (40, 2000)},
)
