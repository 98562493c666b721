"""Index of the largest value along the last axis."""

import torch

from kernelwright.tasks import Chosen, Task, tensor


def argmax(x: torch.Tensor) -> torch.Tensor:
    return torch.argmax(x, dim=-1)


task = Task(
    reference=argmax,
    inputs={"x": tensor("rows", "cols")},
    public=[
        {"rows": 2048, "cols": 2048},
        {"rows": 64, "cols": 65000},
        {"rows": 40000, "cols": 100},
    ],
    hidden={"rows": (50, 9000), "cols": (50, 20000)},
    comparators={"out": Chosen(source="x")},
)
