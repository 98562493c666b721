"""A convolution with padding and stride, whose gradients are wanted."""

import torch.nn.functional as F

from kernelwright.tasks import Task, tensor


def conv(x, weight):
    return F.conv2d(x, weight, stride=2, padding=1)


task = Task(
    conv,
    inputs={"x": tensor("batch", "channels", "height", "width"), "weight": tensor("filters", "channels", 3, 3)},
    public=[{"batch": 2, "channels": 3, "height": 13, "width": 16, "filters": 6}],
    hidden={"batch": (1, 4), "channels": (1, 5), "height": (7, 23), "width": (7, 23), "filters": (2, 9)},
)
