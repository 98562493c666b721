"""GELU where the reference is more exact than the kernel."""

import torch
import torch.nn.functional as F

from kernelwright.tasks import Task, tensor


def gelu_tail(x: torch.Tensor) -> torch.Tensor:
    return F.gelu(x)


task = Task(
    reference=gelu_tail,
    inputs={"x": tensor("rows", "cols")},
    public=[{"rows": 64, "cols": 512}, {"rows": 30, "cols": 1000}, {"rows": 500, "cols": 64}],
    hidden={"rows": (1, 1000), "cols": (1, 2000)},
    dtypes=("float32", "bfloat16"),
)
