"""Root-mean-square normalisation over the last axis, with a weight."""

import torch

from kernelwright.tasks import Task, Workloads, normal, tensor


def rmsnorm(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps) * weight


task = Task(
    reference=rmsnorm,
    inputs={
        "x": tensor("rows", "cols"),
        "weight": tensor("cols", draw=normal(1.0, 0.2)),
        "eps": 1e-6,
    },
    public=[
        {"rows": 1024, "cols": 2048},
        {"rows": 192, "cols": 12000},
        {"rows": 8192, "cols": 256},
    ],
    hidden={"rows": (200, 9000), "cols": (300, 9000)},
    cuda=Workloads(
        public=[
            {"rows": 16 * 1024, "cols": 4096},
            {"rows": 64 * 1024, "cols": 2048},
            {"rows": 2000, "cols": 16000},
        ],
        hidden={"rows": (1000, 70_000), "cols": (500, 20_000)},
    ),
)
