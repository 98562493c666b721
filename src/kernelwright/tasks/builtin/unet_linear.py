"""The linear layer of a UNet: with bias, on every token of a batch."""

import torch
import torch.nn.functional as F

from kernelwright.tasks import Task, Workloads, normal, tensor


def unet_linear(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    return F.linear(x, weight, bias)


task = Task(
    reference=unet_linear,
    inputs={
        "x": tensor("batch", "tokens", "features"),
        "weight": tensor("units", "features", draw=normal(0.0, 0.05)),
        "bias": tensor("units", draw=normal(0.0, 0.5)),
    },
    public=[
        {"batch": 16, "tokens": 256, "features": 128, "units": 256},
        {"batch": 4, "tokens": 1000, "features": 200, "units": 160},
        {"batch": 2, "tokens": 64, "features": 1024, "units": 1024},
    ],
    hidden={"batch": (1, 32), "tokens": (30, 1100), "features": (60, 1100), "units": (60, 1100)},
    work="batch * tokens * features * units",
    cuda=Workloads(
        public=[
            {"batch": 64, "tokens": 256, "features": 128, "units": 128},
            {"batch": 128, "tokens": 256, "features": 128, "units": 64},
            {"batch": 32, "tokens": 1024, "features": 256, "units": 256},
        ],
        hidden={"batch": (8, 130), "tokens": (60, 1100), "features": (50, 600), "units": (50, 600)},
    ),
)
