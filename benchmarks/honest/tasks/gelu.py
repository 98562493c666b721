"""GELU by the error function."""

import torch
import torch.nn.functional as F

from kernelwright.tasks import Task, tensor


def gelu(x: torch.Tensor) -> torch.Tensor:
    return F.gelu(x)


task = Task(
    reference=gelu,
    inputs={"x": tensor("rows", "cols")},
    public=[{"rows": 64, "cols": 512}, {"rows": 30, "cols": 1000}, {"rows": 500, "cols": 64}],
    hidden={"rows": (1, 1000), "cols": (1, 2000)},
    dtypes=("float32", "float64", "float16", "bfloat16"),
)
