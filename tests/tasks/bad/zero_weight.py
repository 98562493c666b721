"""A linear layer whose weight is initialised with zeros."""

import torch

from kernelwright.tasks import Task, custom, tensor


def zeros(
    generator: torch.Generator, shape: tuple[int, ...], dtype: torch.dtype, sizes: dict[str, int]
) -> torch.Tensor:
    return torch.zeros(shape, dtype=dtype)


def linear(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return x @ weight


task = Task(
    reference=linear,
    inputs={"x": tensor("rows", "cols"), "weight": tensor("cols", "cols", draw=custom(zeros))},
    public=[{"rows": 256, "cols": 512}],
    hidden={"rows": (16, 900), "cols": (16, 900)},
)
