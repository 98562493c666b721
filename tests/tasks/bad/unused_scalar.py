"""A scalar that the reference takes and does not use."""

import torch

from kernelwright.tasks import Task, tensor


def unused_scalar(x: torch.Tensor, alpha: float) -> torch.Tensor:
    return torch.nn.functional.silu(x)


task = Task(
    reference=unused_scalar,
    inputs={"x": tensor("rows", "cols"), "alpha": 0.5},
    public=[{"rows": 256, "cols": 512}],
    hidden={"rows": (16, 900), "cols": (16, 900)},
)
