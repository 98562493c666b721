"""An input that is multiplied by zero."""

import torch

from kernelwright.tasks import Task, normal, tensor


def times_zero(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.silu(x) + 0 * weight


task = Task(
    reference=times_zero,
    inputs={"x": tensor("rows", "cols"), "weight": tensor("cols", draw=normal(1.0, 0.2))},
    public=[{"rows": 256, "cols": 512}],
    hidden={"rows": (16, 900), "cols": (16, 900)},
)
