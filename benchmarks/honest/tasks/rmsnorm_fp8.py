"""RMS norm of rows, rounded to 8-bit floats with a scale that brings the largest element of a row to 448."""

import torch

from kernelwright.tasks import Task, cast, normal, tensor


def rmsnorm_fp8(x: torch.Tensor, weight: torch.Tensor, eps: float) -> tuple[torch.Tensor, torch.Tensor]:
    y = x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps) * weight
    scale = y.abs().amax(-1, keepdim=True).clamp_min(1e-10) / 448.0
    return cast(y / scale, torch.float8_e4m3fn), scale


task = Task(
    reference=rmsnorm_fp8,
    inputs={"x": tensor("rows", "cols"), "weight": tensor("cols", draw=normal(1.0, 0.2)), "eps": 1e-6},
    outputs=("q", "scale"),
    public=[{"rows": 64, "cols": 512}, {"rows": 30, "cols": 1000}, {"rows": 500, "cols": 64}],
    hidden={"rows": (1, 1000), "cols": (1, 2000)},
)
