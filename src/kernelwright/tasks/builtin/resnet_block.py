"""A basic block of a ResNet: relu(x + norm(conv(relu(norm(conv(x)))))), in NCHW order.

Convolutions are 3 by 3 with padding 1; normalisations use running statistics, as in inference and fine-tuning. The
backward receives what autograd keeps. Without it rounding would decide on which side of zero a tiny value lies.
"""

from typing import Any

import torch
import torch.nn.functional as F

from kernelwright.tasks import Task, Workloads, normal, tensor, uniform

Tensor = torch.Tensor


def normalised(x: Tensor, scale: Tensor, shift: Tensor, mean: Tensor, var: Tensor, eps: float) -> Tensor:
    return F.batch_norm(x, mean, var, scale, shift, training=False, eps=eps)


def resnet_block(
    x: Tensor,
    conv1: Tensor,
    scale1: Tensor,
    shift1: Tensor,
    mean1: Tensor,
    var1: Tensor,
    conv2: Tensor,
    scale2: Tensor,
    shift2: Tensor,
    mean2: Tensor,
    var2: Tensor,
    eps: float,
) -> Tensor:
    inner = torch.relu(normalised(F.conv2d(x, conv1, padding=1), scale1, shift1, mean1, var1, eps))
    return torch.relu(x + normalised(F.conv2d(inner, conv2, padding=1), scale2, shift2, mean2, var2, eps))


def stages(*arguments: Any) -> tuple[Tensor, Tensor, Tensor]:
    """What the first convolution gives, what the second receives, and what it gives."""
    x, conv1, scale1, shift1, mean1, var1, conv2, *_, eps = arguments
    first = F.conv2d(x, conv1, padding=1)
    inner = torch.relu(normalised(first, scale1, shift1, mean1, var1, eps))
    return first, inner, F.conv2d(inner, conv2, padding=1)


def vjp(
    x: Tensor,
    conv1: Tensor,
    scale1: Tensor,
    shift1: Tensor,
    mean1: Tensor,
    var1: Tensor,
    conv2: Tensor,
    scale2: Tensor,
    shift2: Tensor,
    mean2: Tensor,
    var2: Tensor,
    eps: float,
    saved_first: Tensor,
    saved_inner: Tensor,
    saved_second: Tensor,
    saved_out: Tensor,
    grad: Tensor,
) -> tuple[Tensor, ...]:
    grad = torch.where(saved_out > 0, grad, 0)
    grad_second, grad_scale2, grad_shift2 = through_norm(grad, saved_second, scale2, mean2, var2, eps)
    grad_inner, grad_conv2 = through_conv(grad_second, saved_inner, conv2)
    grad_inner = torch.where(saved_inner > 0, grad_inner, 0)
    grad_first, grad_scale1, grad_shift1 = through_norm(grad_inner, saved_first, scale1, mean1, var1, eps)
    grad_x, grad_conv1 = through_conv(grad_first, x, conv1)
    return grad + grad_x, grad_conv1, grad_scale1, grad_shift1, grad_conv2, grad_scale2, grad_shift2


def through_norm(
    grad: Tensor, x: Tensor, scale: Tensor, mean: Tensor, var: Tensor, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    grad_x, grad_scale, grad_shift = torch.ops.aten.native_batch_norm_backward(
        grad, x, scale, mean, var, None, None, False, eps, [True, True, True]
    )
    return grad_x, grad_scale, grad_shift


def through_conv(grad: Tensor, x: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    grad_x, grad_weight, _ = torch.ops.aten.convolution_backward(
        grad, x, weight, None, [1, 1], [1, 1], [1, 1], False, [0, 0], 1, [True, True, False]
    )
    return grad_x, grad_weight


def norm_inputs(number: int) -> dict[str, Any]:
    return {
        f"scale{number}": tensor("channels", draw=normal(1.0, 0.2)),
        f"shift{number}": tensor("channels", draw=normal(0.0, 0.5)),
        f"mean{number}": tensor("channels", draw=normal(0.0, 0.5), gradient=False),
        f"var{number}": tensor("channels", draw=uniform(0.02, 0.5), gradient=False),
    }


task = Task(
    reference=resnet_block,
    inputs={
        "x": tensor("batch", "channels", "height", "width"),
        "conv1": tensor("channels", "channels", 3, 3, draw=normal(0.0, 0.05)),
        **norm_inputs(1),
        "conv2": tensor("channels", "channels", 3, 3, draw=normal(0.0, 0.05)),
        **norm_inputs(2),
        "eps": 1e-5,
    },
    public=[
        {"batch": 2, "channels": 32, "height": 64, "width": 64},
        {"batch": 4, "channels": 64, "height": 24, "width": 24},
        {"batch": 1, "channels": 96, "height": 32, "width": 32},
    ],
    hidden={"batch": (1, 8), "channels": (8, 100), "height": (8, 80), "width": (8, 80)},
    saved={
        "saved_first": lambda *arguments: stages(*arguments)[0],
        "saved_inner": lambda *arguments: stages(*arguments)[1],
        "saved_second": lambda *arguments: stages(*arguments)[2],
        "saved_out": resnet_block,
    },
    vjp=vjp,
    work="batch * channels * channels * height * width",
    cuda=Workloads(
        public=[
            {"batch": 32, "channels": 64, "height": 224, "width": 224},
            {"batch": 32, "channels": 128, "height": 56, "width": 56},
            {"batch": 32, "channels": 64, "height": 112, "width": 112},
        ],
        hidden={"batch": (4, 40), "channels": (16, 260), "height": (14, 230), "width": (14, 230)},
    ),
)
