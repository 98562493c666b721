"""Softmax of rows."""

import torch

from kernelwright.tasks import Task, tensor


def softmax(x):
    return torch.softmax(x, -1)


task = Task(
    softmax,
    inputs={"x": tensor("rows", "cols")},
    public=[{"rows": 200, "cols": 10}, {"rows": 7, "cols": 2048}],
    hidden={"rows": (3, 40), "cols": (7, 3000)},
)
