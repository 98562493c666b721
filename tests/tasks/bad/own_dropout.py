"""Dropout with a generator of its own, which the check for random numbers does not see."""

import torch

from kernelwright.tasks import Task, tensor

GENERATOR = torch.Generator()


def own_dropout(x: torch.Tensor) -> torch.Tensor:
    return x * (torch.rand(x.shape, generator=GENERATOR, dtype=x.dtype) > 0.5)


task = Task(
    reference=own_dropout,
    inputs={"x": tensor("rows", "cols")},
    public=[{"rows": 256, "cols": 512}],
    hidden={"rows": (16, 900), "cols": (16, 900)},
)
