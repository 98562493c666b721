"""One of two values, by a mask."""

import torch

from kernelwright.tasks import Task, integers, tensor


def choose(mask: torch.Tensor, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.where(mask, x, y)


task = Task(
    reference=choose,
    inputs={
        "mask": tensor("rows", "cols", draw=integers(0, 2), dtype="bool"),
        "x": tensor("rows", "cols"),
        "y": tensor("rows", "cols"),
    },
    public=[{"rows": 64, "cols": 512}, {"rows": 30, "cols": 1000}, {"rows": 500, "cols": 64}],
    hidden={"rows": (1, 1000), "cols": (1, 2000)},
    dtypes=("float64", "bfloat16"),
)
