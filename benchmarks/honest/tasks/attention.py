"""Attention of one head, with its scores scaled."""

import torch

from kernelwright.tasks import Task, normal, tensor


def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    scores = q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5
    return torch.softmax(scores, -1) @ v


task = Task(
    reference=attention,
    inputs={
        "q": tensor("batch", "queries", "width"),
        "k": tensor("batch", "keys", "width", draw=normal(0.0, 0.3)),
        "v": tensor("batch", "keys", "width"),
    },
    public=[
        {"batch": 2, "queries": 64, "keys": 64, "width": 32},
        {"batch": 1, "queries": 33, "keys": 200, "width": 16},
        {"batch": 8, "queries": 16, "keys": 40, "width": 24},
    ],
    hidden={"batch": (1, 8), "queries": (1, 128), "keys": (1, 128), "width": (1, 64)},
    work="batch * queries * keys * width",
)
