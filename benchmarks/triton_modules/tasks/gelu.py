"""GELU, exact."""

import torch
import torch.nn.functional as F

from kernelwright.tasks import Task, tensor


def gelu(x: torch.Tensor) -> torch.Tensor:
    return F.gelu(x)


task = Task(
    gelu,
    inputs={"x": tensor("rows", "cols")},
    public=[{"rows": 512, "cols": 1024}],
    hidden={"rows": (60, 2000), "cols": (40, 2000)},
)
