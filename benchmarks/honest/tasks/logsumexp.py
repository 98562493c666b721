"""Logarithm of the sum of exponentials of each row."""

import torch

from kernelwright.tasks import Task, tensor


def logsumexp(x: torch.Tensor) -> torch.Tensor:
    return torch.logsumexp(x, -1)


task = Task(
    reference=logsumexp,
    inputs={"x": tensor("rows", "cols")},
    public=[{"rows": 64, "cols": 512}, {"rows": 30, "cols": 1000}, {"rows": 500, "cols": 64}],
    hidden={"rows": (1, 1000), "cols": (1, 2000)},
)
