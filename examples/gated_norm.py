"""RMS normalisation of x, times the SiLU of a gate: a piece of a language model."""

import torch

from kernelwright.tasks import Task, tensor


def reference(x, gate, weight, eps):
    normed = x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps) * weight
    return normed * torch.nn.functional.silu(gate)


task = Task(
    reference,
    inputs={
        "x": tensor("rows", "cols"),
        "gate": tensor("rows", "cols"),
        "weight": tensor("cols"),
        "eps": 1e-5,
    },
    public=[{"rows": 4096, "cols": 2048}],
    hidden={"rows": (1000, 6000), "cols": (600, 4000)},
)
