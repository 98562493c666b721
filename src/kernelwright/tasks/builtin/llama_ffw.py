"""The feed-forward block of LLaMA (SwiGLU): (silu(x gateT) * (x upT)) downT.

The backward receives what the forward computed for the gate and beside it, as training keeps it.
"""

import torch
import torch.nn.functional as F

from kernelwright.tasks import Task, Workloads, normal, tensor


def llama_ffw(x: torch.Tensor, gate: torch.Tensor, up: torch.Tensor, down: torch.Tensor) -> torch.Tensor:
    return F.linear(F.silu(F.linear(x, gate)) * F.linear(x, up), down)


def gated(x: torch.Tensor, gate: torch.Tensor, up: torch.Tensor, down: torch.Tensor) -> torch.Tensor:
    return F.linear(x, gate)


def raised(x: torch.Tensor, gate: torch.Tensor, up: torch.Tensor, down: torch.Tensor) -> torch.Tensor:
    return F.linear(x, up)


def vjp(
    x: torch.Tensor,
    gate: torch.Tensor,
    up: torch.Tensor,
    down: torch.Tensor,
    saved_gate: torch.Tensor,
    saved_up: torch.Tensor,
    grad: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    sigmoid = torch.sigmoid(saved_gate)
    silu = saved_gate * sigmoid
    flat = grad.flatten(0, 1)
    grad_hidden = grad @ down
    grad_up = grad_hidden * silu
    grad_gate = grad_hidden * saved_up * (sigmoid + silu * (1 - sigmoid))
    return (
        grad_gate @ gate + grad_up @ up,
        grad_gate.flatten(0, 1).T @ x.flatten(0, 1),
        grad_up.flatten(0, 1).T @ x.flatten(0, 1),
        flat.T @ (silu * saved_up).flatten(0, 1),
    )


task = Task(
    reference=llama_ffw,
    inputs={
        "x": tensor("batch", "tokens", "features"),
        "gate": tensor("inner", "features", draw=normal(0.0, 0.05)),
        "up": tensor("inner", "features", draw=normal(0.0, 0.05)),
        "down": tensor("features", "inner", draw=normal(0.0, 0.05)),
    },
    public=[
        {"batch": 1, "tokens": 96, "features": 512, "inner": 1024},
        {"batch": 2, "tokens": 30, "features": 900, "inner": 900},
        {"batch": 8, "tokens": 50, "features": 256, "inner": 512},
    ],
    hidden={"batch": (1, 8), "tokens": (8, 130), "features": (100, 1100), "inner": (100, 1100)},
    saved={"saved_gate": gated, "saved_up": raised},
    vjp=vjp,
    work="batch * tokens * features * inner",
    cuda=Workloads(
        public=[
            {"batch": 2, "tokens": 128, "features": 4096, "inner": 14336},
            {"batch": 2, "tokens": 128, "features": 2048, "inner": 7168},
            {"batch": 4, "tokens": 1024, "features": 4096, "inner": 14336},
        ],
        hidden={"batch": (1, 8), "tokens": (20, 600), "features": (500, 5000), "inner": (1000, 15_000)},
    ),
)
