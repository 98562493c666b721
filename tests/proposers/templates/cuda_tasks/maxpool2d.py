"""Maxima of 2×2 windows."""

import torch.nn.functional as F

from kernelwright.tasks import Task, tensor


def maxpool2d(x):
    return F.max_pool2d(x, 2)


task = Task(
    maxpool2d,
    inputs={"x": tensor("batch", "channels", "height", "width")},
    public=[{"batch": 3, "channels": 4, "height": 28, "width": 28}],
    hidden={"batch": (1, 4), "channels": (1, 5), "height": (5, 23), "width": (5, 23)},
)
