"""A bias, an activation and a scale for each row."""

import torch
import torch.nn.functional as F

from kernelwright.tasks import Task, tensor


def pointwise(x, bias, scale):
    return torch.tanh(F.gelu(x + bias) * scale) + 1


task = Task(
    pointwise,
    inputs={"x": tensor("rows", "cols"), "bias": tensor("cols"), "scale": tensor("rows", 1)},
    public=[{"rows": 90, "cols": 64}],
    hidden={"rows": (3, 300), "cols": (7, 600)},
)
