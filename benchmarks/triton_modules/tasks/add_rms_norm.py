"""RMS normalisation of a sum of two."""

import torch
import torch.nn.functional as F

from kernelwright.tasks import Task, tensor


def add_rms_norm(x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return F.rms_norm(x + residual, weight.shape, weight, 1e-6)


task = Task(
    add_rms_norm,
    inputs={"x": tensor("rows", "cols"), "residual": tensor("rows", "cols"), "weight": tensor("cols")},
    public=[{"rows": 512, "cols": 1024}],
    hidden={"rows": (60, 2000), "cols": (40, 2000)},
)
