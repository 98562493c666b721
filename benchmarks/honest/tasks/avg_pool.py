"""Mean over windows of 2 by 2 with stride 2."""

import torch
import torch.nn.functional as F

from kernelwright.tasks import Task, tensor


def avg_pool(x: torch.Tensor) -> torch.Tensor:
    return F.avg_pool2d(x, 2)


task = Task(
    reference=avg_pool,
    inputs={"x": tensor("batch", "channels", "height", "width")},
    public=[
        {"batch": 2, "channels": 8, "height": 32, "width": 64},
        {"batch": 1, "channels": 3, "height": 31, "width": 300},
        {"batch": 8, "channels": 32, "height": 11, "width": 13},
    ],
    hidden={"batch": (1, 16), "channels": (1, 64), "height": (2, 128), "width": (2, 300)},
)
