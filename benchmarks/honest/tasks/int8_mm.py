"""A product of whole numbers of eight bits with a scale for each row and one for the whole other side."""

import torch

from kernelwright.tasks import Task, integers, tensor, uniform


def int8_mm(a: torch.Tensor, b: torch.Tensor, scale_a: torch.Tensor, scale_b: torch.Tensor) -> torch.Tensor:
    return (a.to(scale_a.dtype) @ b.to(scale_a.dtype).T) * scale_a * scale_b


task = Task(
    reference=int8_mm,
    inputs={
        "a": tensor("m", "k", draw=integers(-128, 128), dtype="int8"),
        "b": tensor("n", "k", draw=integers(-128, 128), dtype="int8"),
        "scale_a": tensor("m", 1, draw=uniform(0.01, 1.0)),
        "scale_b": tensor(1, draw=uniform(0.01, 1.0)),
    },
    public=[{"m": 64, "k": 128, "n": 64}, {"m": 16, "k": 704, "n": 48}, {"m": 200, "k": 32, "n": 80}],
    hidden={"m": (1, 256), "k": (1, 512), "n": (1, 128)},
    work="m * k * n",
)
