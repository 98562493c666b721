"""Hidden ranges that hold the public workload alone."""

import torch

from kernelwright.tasks import Task, tensor


def silu(x: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.silu(x)


task = Task(
    reference=silu,
    inputs={"x": tensor("rows", "cols")},
    public=[{"rows": 256, "cols": 512}],
    hidden={"rows": (256, 256), "cols": (512, 512)},
)
