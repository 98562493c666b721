"""SiLU: x times its sigmoid."""

import torch
import torch.nn.functional as F

from kernelwright.tasks import Task, tensor


def silu(x: torch.Tensor) -> torch.Tensor:
    return F.silu(x)


task = Task(
    reference=silu,
    inputs={"x": tensor("rows", "cols")},
    public=[{"rows": 64, "cols": 512}, {"rows": 30, "cols": 1000}, {"rows": 500, "cols": 64}],
    hidden={"rows": (1, 1000), "cols": (1, 2000)},
    dtypes=("float32", "bfloat16"),
)
