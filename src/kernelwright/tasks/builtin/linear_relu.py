"""A linear layer with bias, followed by a ReLU.

The backward receives the forward's output. Without it rounding would decide on which side of zero a tiny
pre-activation lies, and deciding differently changes a whole row of the gradient.
"""

import torch

from kernelwright.tasks import Task, Workloads, normal, tensor


def linear_relu(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    return torch.relu(x @ weight.T + bias)


def vjp(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, saved_out: torch.Tensor, grad: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    grad = torch.where(saved_out > 0, grad, 0)
    return grad @ weight, grad.T @ x, grad.sum(0)


task = Task(
    reference=linear_relu,
    inputs={
        "x": tensor("rows", "features"),
        "weight": tensor("units", "features", draw=normal(0.0, 0.05)),
        "bias": tensor("units", draw=normal(0.0, 0.5)),
    },
    public=[
        {"rows": 768, "features": 512, "units": 512},
        {"rows": 48, "features": 4096, "units": 1000},
        {"rows": 12000, "features": 128, "units": 128},
    ],
    hidden={"rows": (20, 6000), "features": (60, 4000), "units": (60, 2000)},
    saved={"saved_out": linear_relu},
    vjp=vjp,
    work="rows * features * units",
    cuda=Workloads(
        public=[
            {"rows": 64, "features": 1600, "units": 128},
            {"rows": 64, "features": 128, "units": 10},
            {"rows": 4096, "features": 4096, "units": 4096},
        ],
        hidden={"rows": (4, 1000), "features": (60, 4000), "units": (8, 600)},
    ),
)
