"""Rows of whole numbers of eight bits, each with a scale of its own."""

import torch

from kernelwright.tasks import Task, integers, tensor


def dequantise(x: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    return x * scale[:, None]


task = Task(
    reference=dequantise,
    inputs={"x": tensor("rows", "cols", draw=integers(-128, 128), dtype="int8"), "scale": tensor("rows")},
    public=[{"rows": 64, "cols": 512}, {"rows": 30, "cols": 1000}, {"rows": 500, "cols": 64}],
    hidden={"rows": (1, 1000), "cols": (1, 2000)},
)
