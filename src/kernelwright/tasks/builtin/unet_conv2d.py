"""The convolution of a UNet: 3 by 3 with padding 1 and a bias, in NCHW order."""

import torch
import torch.nn.functional as F

from kernelwright.tasks import Task, Workloads, normal, tensor


def unet_conv2d(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    return F.conv2d(x, weight, bias, padding=1)


task = Task(
    reference=unet_conv2d,
    inputs={
        "x": tensor("batch", "channels", "height", "width"),
        "weight": tensor("filters", "channels", 3, 3, draw=normal(0.0, 0.05)),
        "bias": tensor("filters", draw=normal(0.0, 0.5)),
    },
    public=[
        {"batch": 2, "channels": 64, "height": 32, "width": 32, "filters": 128},
        {"batch": 8, "channels": 16, "height": 48, "width": 48, "filters": 64},
        {"batch": 1, "channels": 128, "height": 24, "width": 24, "filters": 256},
    ],
    hidden={"batch": (1, 16), "channels": (8, 150), "height": (8, 70), "width": (8, 70), "filters": (8, 260)},
    work="batch * channels * filters * height * width",
    cuda=Workloads(
        public=[
            {"batch": 8, "channels": 64, "height": 32, "width": 32, "filters": 64},
            {"batch": 16, "channels": 256, "height": 32, "width": 32, "filters": 64},
            {"batch": 32, "channels": 128, "height": 32, "width": 32, "filters": 128},
        ],
        hidden={"batch": (2, 40), "channels": (16, 300), "height": (12, 100), "width": (12, 100), "filters": (16, 300)},
    ),
)
