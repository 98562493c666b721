"""A grouped convolution and a transposed one, with a bias and an activation behind them."""

import torch.nn.functional as F

from kernelwright.tasks import Task, tensor


def convolutions(x, grouped, turned, bias):
    wide = F.conv_transpose2d(x, turned, bias, stride=2, padding=1, output_padding=1)
    return F.conv2d(x, grouped, padding=1, groups=2), wide.relu()


task = Task(
    convolutions,
    inputs={
        "x": tensor("batch", 4, "height", "width"),
        "grouped": tensor(6, 2, 3, 3),
        "turned": tensor(4, "filters", 3, 3),
        "bias": tensor("filters"),
    },
    outputs=("apart", "wide"),
    public=[{"batch": 2, "height": 9, "width": 11, "filters": 5}],
    hidden={"batch": (1, 3), "height": (5, 13), "width": (5, 13), "filters": (2, 7)},
)
