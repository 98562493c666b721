"""Group normalisation in eight groups."""

import torch
import torch.nn.functional as F

from kernelwright.tasks import Task, tensor


def group_norm(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    return F.group_norm(x, 8, weight, bias, 1e-5)


task = Task(
    group_norm,
    inputs={"x": tensor("batch", 64, "length"), "weight": tensor(64), "bias": tensor(64)},
    public=[{"batch": 8, "length": 256}],
    hidden={"batch": (1, 16), "length": (20, 600)},
)
