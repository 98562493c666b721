"""A 3 by 3 convolution without padding, a ReLU and a maximum over windows of 2 by 2, in NCHW order.

The backward receives the forward's output and the place of each maximum in its plane. Without them rounding would
decide which of two nearly equal values was the larger, and a whole gradient would go to another place.
"""

import torch
import torch.nn.functional as F

from kernelwright.tasks import Task, Workloads, normal, tensor


def conv_relu_pool(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    return F.max_pool2d(torch.relu(F.conv2d(x, weight, bias)), 2)


def places(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    return F.max_pool2d(torch.relu(F.conv2d(x, weight, bias)), 2, return_indices=True)[1]


def vjp(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor,
    saved_out: torch.Tensor,
    saved_places: torch.Tensor,
    grad: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    passed = torch.where(saved_out > 0, grad, 0).flatten(2)
    height, width = x.shape[2] - 2, x.shape[3] - 2
    spread = passed.new_zeros(*passed.shape[:2], height * width).scatter(2, saved_places.flatten(2), passed)
    spread = spread.view(*passed.shape[:2], height, width)
    grad_x, grad_weight, _ = torch.ops.aten.convolution_backward(
        spread, x, weight, None, [1, 1], [0, 0], [1, 1], False, [0, 0], 1, [True, True, False]
    )
    return grad_x, grad_weight, passed.sum((0, 2))


task = Task(
    reference=conv_relu_pool,
    inputs={
        "x": tensor("batch", "channels", "height", "width"),
        "weight": tensor("filters", "channels", 3, 3, draw=normal(0.0, 0.2)),
        "bias": tensor("filters", draw=normal(0.0, 0.5)),
    },
    public=[
        {"batch": 64, "channels": 1, "height": 28, "width": 28, "filters": 32},
        {"batch": 64, "channels": 16, "height": 24, "width": 24, "filters": 16},
        {"batch": 4, "channels": 32, "height": 48, "width": 48, "filters": 40},
    ],
    hidden={"batch": (2, 64), "channels": (1, 40), "height": (8, 100), "width": (8, 100), "filters": (8, 70)},
    saved={"saved_out": conv_relu_pool, "saved_places": places},
    vjp=vjp,
    work="batch * (channels + 8) * filters * height * width",
    cuda=Workloads(
        public=[
            {"batch": 64, "channels": 1, "height": 28, "width": 28, "filters": 32},
            {"batch": 64, "channels": 32, "height": 13, "width": 13, "filters": 64},
            {"batch": 64, "channels": 32, "height": 112, "width": 112, "filters": 64},
        ],
        hidden={"batch": (4, 130), "channels": (1, 64), "height": (8, 130), "width": (8, 130), "filters": (8, 130)},
    ),
)
