"""Cross entropy of logits against integer targets, averaged over the rows."""

import torch
import torch.nn.functional as F

from kernelwright.tasks import Task, Workloads, integers, tensor


def cross_entropy(logits: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(logits, target)


task = Task(
    reference=cross_entropy,
    inputs={
        "logits": tensor("rows", "classes"),
        "target": tensor("rows", draw=integers(0, "classes"), dtype="int64"),
    },
    public=[
        {"rows": 3072, "classes": 1000},
        {"rows": 96, "classes": 32000},
        {"rows": 30000, "classes": 100},
    ],
    hidden={"rows": (100, 20000), "classes": (50, 30000)},
    cuda=Workloads(
        public=[
            {"rows": 64, "classes": 10},
            {"rows": 4096, "classes": 100},
            {"rows": 4096, "classes": 32000},
        ],
        hidden={"rows": (30, 20_000), "classes": (8, 4000)},
    ),
)
