"""A tolerance so wide that zeros lie within it."""

import torch

from kernelwright.tasks import Precision, Task, tensor


def silu(x: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.silu(x)


task = Task(
    reference=silu,
    inputs={"x": tensor("rows", "cols")},
    public=[{"rows": 256, "cols": 512}],
    hidden={"rows": (16, 900), "cols": (16, 900)},
    precision=Precision(slack=1e6),
)
