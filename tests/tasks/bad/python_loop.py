"""A reference that goes through its rows in Python."""

import torch

from kernelwright.tasks import Task, tensor


def python_loop(x: torch.Tensor) -> torch.Tensor:
    return torch.stack([torch.nn.functional.silu(row) for row in x])


task = Task(
    reference=python_loop,
    inputs={"x": tensor("rows", "cols")},
    public=[{"rows": 4000, "cols": 16}],
    hidden={"rows": (16, 9000), "cols": (16, 90)},
)
