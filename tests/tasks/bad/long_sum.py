"""A sum over so many values of both signs that what one accumulator may lose is as large as the sum."""

import torch

from kernelwright.tasks import Task, tensor


def long_sum(x: torch.Tensor) -> torch.Tensor:
    return x.sum()


task = Task(
    reference=long_sum,
    inputs={"x": tensor("rows", "cols")},
    public=[{"rows": 1024, "cols": 1024}],
    hidden={"rows": (16, 3000), "cols": (16, 3000)},
)
