"""A copy, for kernels that move as many bytes: `judge_gpu.py --only rows --tasks benchmarks/gpu/copy_task.py`."""

import torch

from kernelwright.tasks import Task, Workloads, tensor


def copy(x: torch.Tensor) -> torch.Tensor:
    return x.clone()


task = Task(
    reference=copy,
    inputs={"x": tensor("rows", "cols")},
    public=[{"rows": 1024, "cols": 2048}],
    hidden={"rows": (200, 9000), "cols": (300, 9000)},
    cuda=Workloads(public=[{"rows": 16 * 1024, "cols": 4096}], hidden={"rows": (1000, 70_000), "cols": (500, 20_000)}),
)
