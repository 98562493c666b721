"""Few long rows, which are split over blocks."""

import torch.nn.functional as F

from kernelwright.tasks import Task, normal, tensor


def layernorm(x, weight, bias):
    return F.layer_norm(x, (x.shape[-1],), weight, bias)


task = Task(
    layernorm,
    inputs={
        "x": tensor("rows", "cols"),
        "weight": tensor("cols", draw=normal(1.0, 0.2)),
        "bias": tensor("cols"),
    },
    public=[{"rows": 1, "cols": 70000}, {"rows": 6, "cols": 1028}],
    hidden={"rows": (2, 9), "cols": (30, 900)},
)
