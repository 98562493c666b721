"""A transposed copy."""

import torch

from kernelwright.tasks import Task, tensor


def transpose(x: torch.Tensor) -> torch.Tensor:
    return x.t().contiguous()


task = Task(
    reference=transpose,
    inputs={"x": tensor("rows", "cols")},
    public=[{"rows": 64, "cols": 512}, {"rows": 30, "cols": 1000}, {"rows": 500, "cols": 64}],
    hidden={"rows": (1, 1000), "cols": (1, 2000)},
    dtypes=("float32", "float64", "float16", "bfloat16"),
)
