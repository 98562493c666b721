"""A table that is the same in every draw and not declared constant."""

import torch

from kernelwright.tasks import Task, custom, tensor


def table(
    generator: torch.Generator, shape: tuple[int, ...], dtype: torch.dtype, sizes: dict[str, int]
) -> torch.Tensor:
    return torch.linspace(1, 2, shape[0], dtype=dtype)


def fixed_table(x: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.silu(x) * scale


task = Task(
    reference=fixed_table,
    inputs={"x": tensor("rows", "cols"), "scale": tensor("cols", draw=custom(table))},
    public=[{"rows": 256, "cols": 512}],
    hidden={"rows": (16, 900), "cols": (16, 900)},
)
