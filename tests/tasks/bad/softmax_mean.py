"""The mean of a softmax is one over its length, whatever the input."""

import torch

from kernelwright.tasks import Task, tensor


def softmax_mean(x: torch.Tensor) -> torch.Tensor:
    return torch.softmax(x, dim=-1).mean(-1)


task = Task(
    reference=softmax_mean,
    inputs={"x": tensor("rows", "cols")},
    public=[{"rows": 256, "cols": 512}],
    hidden={"rows": (16, 900), "cols": (16, 900)},
)
