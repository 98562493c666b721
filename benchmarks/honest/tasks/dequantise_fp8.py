"""Rows of 8-bit floats, each with a scale of its own, as bfloat16."""

import torch

from kernelwright.tasks import Task, cast, tensor, uniform


def dequantise(x: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    return cast(cast(x, torch.float32) * scale, torch.bfloat16)


task = Task(
    reference=dequantise,
    inputs={
        "x": tensor("rows", "cols", dtype="float8_e5m2"),
        "scale": tensor("rows", 1, draw=uniform(0.01, 1.0)),
    },
    public=[{"rows": 64, "cols": 512}, {"rows": 30, "cols": 1000}, {"rows": 500, "cols": 64}],
    hidden={"rows": (1, 1000), "cols": (1, 2000)},
)
