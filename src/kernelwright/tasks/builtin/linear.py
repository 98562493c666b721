"""A linear layer with bias."""

import torch
import torch.nn.functional as F

from kernelwright.tasks import Task, Workloads, normal, tensor


def linear(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    return F.linear(x, weight, bias)


task = Task(
    reference=linear,
    inputs={
        "x": tensor("rows", "features"),
        "weight": tensor("units", "features", draw=normal(0.0, 0.05)),
        "bias": tensor("units", draw=normal(0.0, 0.5)),
    },
    public=[
        {"rows": 640, "features": 512, "units": 512},
        {"rows": 40, "features": 4096, "units": 1000},
        {"rows": 14000, "features": 96, "units": 128},
    ],
    hidden={"rows": (20, 6000), "features": (60, 4000), "units": (10, 2000)},
    work="rows * features * units",
    cuda=Workloads(
        public=[
            {"rows": 64, "features": 128, "units": 10},
            {"rows": 4, "features": 4096, "units": 4096},
            {"rows": 64, "features": 4096, "units": 4096},
        ],
        hidden={"rows": (2, 600), "features": (60, 6000), "units": (8, 6000)},
    ),
)
