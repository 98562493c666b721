"""A task for product_variants.py: a product of two bfloat16 matrices."""

import torch

from kernelwright.tasks import Task, tensor


def product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return a @ b


task = Task(
    reference=product,
    inputs={"a": tensor("rows", "depth"), "b": tensor("depth", "cols")},
    public=[{"rows": 256, "depth": 256, "cols": 256}],
    hidden={"rows": (8, 4096), "depth": (8, 4096), "cols": (8, 4096)},
    dtypes=("bfloat16",),
)
