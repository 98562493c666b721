"""A small product with a bias and an activation."""

import torch
import torch.nn.functional as F

from kernelwright.tasks import Task, tensor


def linear_relu(x, weight, bias):
    return torch.relu(F.linear(x, weight, bias))


task = Task(
    linear_relu,
    inputs={"x": tensor("rows", "depth"), "weight": tensor("cols", "depth"), "bias": tensor("cols")},
    public=[{"rows": 64, "depth": 128, "cols": 10}, {"rows": 17, "depth": 300, "cols": 40}],
    hidden={"rows": (3, 70), "depth": (9, 90), "cols": (5, 80)},
)
