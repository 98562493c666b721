"""A product of 8-bit floats with a scale for each row of either side, as torch._scaled_mm has it."""

import torch

from kernelwright.tasks import Task, cast, tensor, uniform


def scaled_mm(a: torch.Tensor, b: torch.Tensor, scale_a: torch.Tensor, scale_b: torch.Tensor) -> torch.Tensor:
    product = cast(a, torch.float32) @ cast(b, torch.float32).T
    return cast(product * scale_a * scale_b.T, torch.bfloat16)


task = Task(
    reference=scaled_mm,
    inputs={
        "a": tensor("m", "k", dtype="float8_e4m3fn"),
        "b": tensor("n", "k", dtype="float8_e4m3fn"),
        "scale_a": tensor("m", 1, draw=uniform(0.01, 1.0)),
        "scale_b": tensor("n", 1, draw=uniform(0.01, 1.0)),
    },
    public=[{"m": 64, "k": 128, "n": 64}, {"m": 16, "k": 704, "n": 48}, {"m": 200, "k": 32, "n": 80}],
    hidden={"m": (1, 256), "k": (1, 512), "n": (1, 128)},
    work="m * k * n",
)
