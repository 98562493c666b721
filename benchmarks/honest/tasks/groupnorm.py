"""Normalisation over groups of four channels."""

import torch
import torch.nn.functional as F

from kernelwright.tasks import Task, normal, tensor


def groupnorm(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, eps: float) -> torch.Tensor:
    return F.group_norm(x, x.shape[1] // 4, weight, bias, eps)


task = Task(
    reference=groupnorm,
    inputs={
        "x": tensor("batch", "4 * groups", "pixels"),
        "weight": tensor("4 * groups", draw=normal(1.0, 0.2)),
        "bias": tensor("4 * groups", draw=normal(0.0, 0.5)),
        "eps": 1e-5,
    },
    public=[
        {"batch": 4, "groups": 4, "pixels": 512},
        {"batch": 1, "groups": 8, "pixels": 1000},
        {"batch": 50, "groups": 16, "pixels": 9},
    ],
    hidden={"batch": (1, 40), "groups": (1, 16), "pixels": (2, 1000)},
)
