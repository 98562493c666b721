"""Running sum along each row."""

import torch

from kernelwright.tasks import Task, tensor


def cumsum(x: torch.Tensor) -> torch.Tensor:
    return torch.cumsum(x, -1)


task = Task(
    reference=cumsum,
    inputs={"x": tensor("rows", "cols")},
    public=[{"rows": 64, "cols": 512}, {"rows": 30, "cols": 1000}, {"rows": 500, "cols": 64}],
    hidden={"rows": (1, 1000), "cols": (1, 2000)},
)
