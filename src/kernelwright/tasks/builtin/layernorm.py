"""Layer normalisation over the last axis, with a weight and a bias."""

import torch
import torch.nn.functional as F

from kernelwright.tasks import Task, normal, tensor


def layernorm(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, eps: float) -> torch.Tensor:
    return F.layer_norm(x, x.shape[-1:], weight, bias, eps)


task = Task(
    reference=layernorm,
    inputs={
        "x": tensor("rows", "cols"),
        "weight": tensor("cols", draw=normal(1.0, 0.2)),
        "bias": tensor("cols", draw=normal(0.0, 0.5)),
        "eps": 1e-5,
    },
    public=[
        {"rows": 2048, "cols": 2048},
        {"rows": 256, "cols": 16000},
        {"rows": 20000, "cols": 256},
    ],
    hidden={"rows": (200, 9000), "cols": (300, 9000)},
)
