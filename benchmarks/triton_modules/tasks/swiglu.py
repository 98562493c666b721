"""Gated unit: silu(a) * b."""

import torch
import torch.nn.functional as F

from kernelwright.tasks import Task, tensor


def swiglu(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return F.silu(a) * b


task = Task(
    swiglu,
    inputs={"a": tensor("rows", "cols"), "b": tensor("rows", "cols")},
    public=[{"rows": 512, "cols": 1024}],
    hidden={"rows": (60, 2000), "cols": (40, 2000)},
)
