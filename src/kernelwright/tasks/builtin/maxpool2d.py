"""Maximum over windows of 2 by 2 with stride 2, in NCHW order; an odd last row or column is left out.

The backward sends each gradient to the first maximum of its window, in row-major order.
"""

import torch
import torch.nn.functional as F

from kernelwright.tasks import Task, Workloads, tensor


def maxpool2d(x: torch.Tensor) -> torch.Tensor:
    return F.max_pool2d(x, kernel_size=2, stride=2)


task = Task(
    reference=maxpool2d,
    inputs={"x": tensor("batch", "channels", "height", "width")},
    public=[
        {"batch": 8, "channels": 64, "height": 64, "width": 64},
        {"batch": 1, "channels": 3, "height": 31, "width": 20000},
        {"batch": 64, "channels": 256, "height": 11, "width": 13},
    ],
    hidden={"batch": (1, 64), "channels": (3, 300), "height": (8, 600), "width": (8, 2000)},
    cuda=Workloads(
        public=[
            {"batch": 64, "channels": 64, "height": 28, "width": 28},
            {"batch": 64, "channels": 128, "height": 12, "width": 12},
            {"batch": 32, "channels": 64, "height": 112, "width": 112},
        ],
        hidden={"batch": (1, 130), "channels": (3, 300), "height": (6, 300), "width": (6, 300)},
    ),
)
