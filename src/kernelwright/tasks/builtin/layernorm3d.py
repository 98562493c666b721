"""Layer normalisation over the last three of four axes, with a weight and a bias for each of their elements.

eps is not the usual 1e-5: over a whole image the few rows of other input families in each trial would hide that.
"""

import torch
import torch.nn.functional as F

from kernelwright.tasks import Task, Workloads, normal, tensor


def layernorm3d(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, eps: float) -> torch.Tensor:
    return F.layer_norm(x, x.shape[1:], weight, bias, eps)


task = Task(
    reference=layernorm3d,
    inputs={
        "x": tensor("batch", "channels", "height", "width"),
        "weight": tensor("channels", "height", "width", draw=normal(1.0, 0.2)),
        "bias": tensor("channels", "height", "width", draw=normal(0.0, 0.5)),
        "eps": 1e-3,
    },
    public=[
        {"batch": 2, "channels": 16, "height": 192, "width": 192},
        {"batch": 16, "channels": 8, "height": 128, "width": 128},
        {"batch": 64, "channels": 4, "height": 96, "width": 96},
    ],
    hidden={"batch": (2, 70), "channels": (2, 40), "height": (16, 300), "width": (16, 300)},
    cuda=Workloads(
        public=[
            {"batch": 1, "channels": 64, "height": 256, "width": 256},
            {"batch": 32, "channels": 64, "height": 256, "width": 256},
            {"batch": 8, "channels": 64, "height": 256, "width": 256},
        ],
        hidden={"batch": (2, 40), "channels": (2, 100), "height": (30, 500), "width": (30, 500)},
    ),
)
