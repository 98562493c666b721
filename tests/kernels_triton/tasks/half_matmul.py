"""A product of two matrices in float16."""

import torch

from kernelwright.tasks import Task, tensor


def half_matmul(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return a @ b


task = Task(
    half_matmul,
    inputs={"a": tensor("m", "k"), "b": tensor("k", "n")},
    public=[{"m": 256, "k": 128, "n": 192}],
    hidden={"m": (64, 300), "k": (32, 200), "n": (64, 300)},
    dtypes=("float16",),
)
