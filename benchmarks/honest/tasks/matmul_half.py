"""A matrix product of 16-bit factors, added up in float32."""

import torch

from kernelwright.tasks import Task, normal, tensor


def matmul_half(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return a @ b


task = Task(
    reference=matmul_half,
    inputs={"a": tensor("m", "k"), "b": tensor("k", "n", draw=normal(0.0, 0.1))},
    public=[{"m": 64, "k": 128, "n": 64}, {"m": 16, "k": 700, "n": 50}, {"m": 200, "k": 32, "n": 80}],
    hidden={"m": (1, 256), "k": (1, 512), "n": (1, 128)},
    dtypes=("float16", "bfloat16"),
    work="m * k * n",
)
