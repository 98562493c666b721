"""A step so small that leaving the parameter alone is as good."""

import torch

from kernelwright.tasks import Task, tensor


def tiny_step(param: torch.Tensor, grad: torch.Tensor, lr: float) -> None:
    param.add_(grad, alpha=-lr)


task = Task(
    reference=tiny_step,
    inputs={"param": tensor("rows", "cols"), "grad": tensor("rows", "cols"), "lr": 1e-12},
    public=[{"rows": 256, "cols": 512}],
    hidden={"rows": (16, 900), "cols": (16, 900)},
    inout=("param",),
    outputs=(),
)
