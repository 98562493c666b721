"""A reference that goes through its rows in Python."""

import torch

from kernelwright.tasks import Family, Task, tensor


def python_loop(x: torch.Tensor) -> torch.Tensor:
    return torch.stack([torch.nn.functional.silu(row) for row in x])


task = Task(
    reference=python_loop,
    inputs={"x": tensor("rows", "cols")},
    public=[{"rows": 1000, "cols": 64}],
    hidden={"rows": (16, 2000), "cols": (16, 400)},
    families=(Family.NORMAL,),
)
