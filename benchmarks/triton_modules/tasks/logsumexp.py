"""The logarithm of each row's sum of exponentials."""

import torch

from kernelwright.tasks import Task, tensor


def logsumexp(x: torch.Tensor) -> torch.Tensor:
    return torch.logsumexp(x, -1)


task = Task(
    logsumexp,
    inputs={"x": tensor("rows", "cols")},
    public=[{"rows": 512, "cols": 1024}],
    hidden={"rows": (60, 2000), "cols": (40, 2000)},
)
