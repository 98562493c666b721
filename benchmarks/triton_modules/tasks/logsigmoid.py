"""The logarithm of the logistic function."""

import torch
import torch.nn.functional as F

from kernelwright.tasks import Task, tensor


def logsigmoid(x: torch.Tensor) -> torch.Tensor:
    return F.logsigmoid(x)


task = Task(
    logsigmoid,
    inputs={"x": tensor("rows", "cols")},
    public=[{"rows": 512, "cols": 1024}],
    hidden={"rows": (60, 2000), "cols": (40, 2000)},
)
