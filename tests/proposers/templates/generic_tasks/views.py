"""Slices, joins, padding and turned dimensions, whose sizes are not those of arguments."""

import torch
import torch.nn.functional as F

from kernelwright.tasks import Task, tensor


def views(x):
    joined = torch.cat([x, x.flip(2) * 2, x[..., :1]], 2)
    padded = F.pad(x, (2, 1, 0, 3), value=-1.5)
    return joined, padded, -x[:, 1:-1:2, 3:], x.permute(2, 0, 1).contiguous(), F.pad(x, (3, 2), mode="reflect")


task = Task(
    views,
    inputs={"x": tensor("a", "b", "c")},
    outputs=("joined", "padded", "cut", "turned", "mirrored"),
    public=[{"a": 3, "b": 7, "c": 18}],
    hidden={"a": (1, 5), "b": (4, 9), "c": (8, 23)},
)
