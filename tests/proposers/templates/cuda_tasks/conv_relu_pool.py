"""A convolution of few channels with a bias, an activation and pooling."""

import torch
import torch.nn.functional as F

from kernelwright.tasks import Task, tensor


def conv_relu_pool(x, weight, bias):
    return F.max_pool2d(torch.relu(F.conv2d(x, weight, bias)), 2)


task = Task(
    conv_relu_pool,
    inputs={
        "x": tensor("batch", "channels", "height", "width"),
        "weight": tensor("filters", "channels", 3, 3),
        "bias": tensor("filters"),
    },
    public=[{"batch": 4, "channels": 1, "height": 28, "width": 28, "filters": 32}],
    hidden={"batch": (1, 4), "channels": (1, 5), "height": (7, 23), "width": (7, 23), "filters": (2, 9)},
)
