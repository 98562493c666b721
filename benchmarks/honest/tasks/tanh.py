"""Hyperbolic tangent."""

import torch

from kernelwright.tasks import Task, tensor


def tanh(x: torch.Tensor) -> torch.Tensor:
    return torch.tanh(x)


task = Task(
    reference=tanh,
    inputs={"x": tensor("rows", "cols")},
    public=[{"rows": 64, "cols": 512}, {"rows": 30, "cols": 1000}, {"rows": 500, "cols": 64}],
    hidden={"rows": (1, 1000), "cols": (1, 2000)},
    dtypes=("float32", "float64"),
)
