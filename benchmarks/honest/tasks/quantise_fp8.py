"""Numbers divided by one scale and rounded to 8-bit floats of either format; what is too large saturates in one."""

import torch

from kernelwright.tasks import Task, cast, tensor, uniform


def quantise(x: torch.Tensor, scale: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    y = x / scale
    return cast(y, torch.float8_e4m3fn), cast(y, torch.float8_e5m2)


task = Task(
    reference=quantise,
    inputs={"x": tensor("rows", "cols"), "scale": tensor(1, draw=uniform(0.01, 0.1))},
    outputs=("fine", "coarse"),
    public=[{"rows": 64, "cols": 512}, {"rows": 30, "cols": 1000}, {"rows": 500, "cols": 64}],
    hidden={"rows": (1, 1000), "cols": (1, 2000)},
)
