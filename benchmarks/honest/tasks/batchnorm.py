"""Batch normalisation with given statistics, in NCHW order."""

import torch
import torch.nn.functional as F

from kernelwright.tasks import Task, normal, tensor, uniform


def batchnorm(
    x: torch.Tensor, mean: torch.Tensor, var: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, eps: float
) -> torch.Tensor:
    return F.batch_norm(x, mean, var, weight, bias, False, 0.0, eps)


task = Task(
    reference=batchnorm,
    inputs={
        "x": tensor("batch", "channels", "pixels"),
        "mean": tensor("channels", draw=normal(0.0, 1.0)),
        "var": tensor("channels", draw=uniform(0.5, 2.0)),
        "weight": tensor("channels", draw=normal(1.0, 0.2)),
        "bias": tensor("channels", draw=normal(0.0, 0.5)),
        "eps": 1e-5,
    },
    public=[
        {"batch": 4, "channels": 16, "pixels": 512},
        {"batch": 1, "channels": 30, "pixels": 1000},
        {"batch": 50, "channels": 64, "pixels": 9},
    ],
    hidden={"batch": (1, 40), "channels": (1, 64), "pixels": (1, 1000)},
)
