"""Gated unit with the approximation of GELU by tanh: gelu(a) * b."""

import torch
import torch.nn.functional as F

from kernelwright.tasks import Task, tensor


def geglu(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return F.gelu(a, approximate="tanh") * b


task = Task(
    geglu,
    inputs={"a": tensor("rows", "cols"), "b": tensor("rows", "cols")},
    public=[{"rows": 512, "cols": 1024}],
    hidden={"rows": (60, 2000), "cols": (40, 2000)},
)
