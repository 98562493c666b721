"""Pooling of one and two dimensions, with rounding up, padding that counts or not, and larger images."""

import torch.nn.functional as F

from kernelwright.tasks import Task, tensor


def windows(x):
    image = x.unsqueeze(1)
    largest = F.max_pool2d(image, 3, 2, 1, ceil_mode=True)
    average = F.avg_pool2d(image, 3, 2, 1, ceil_mode=True, count_include_pad=False)
    return F.max_pool1d(x, 3, 2, 1), largest, average, F.interpolate(image, scale_factor=2, mode="nearest")


task = Task(
    windows,
    inputs={"x": tensor("a", "b", "c")},
    outputs=("short", "largest", "average", "larger"),
    public=[{"a": 3, "b": 7, "c": 18}],
    hidden={"a": (1, 5), "b": (4, 9), "c": (8, 23)},
)
