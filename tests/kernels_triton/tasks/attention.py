"""Causal attention over heads, in float16."""

import torch
import torch.nn.functional as F

from kernelwright.tasks import Task, tensor


def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


SHAPE = ("batch", "heads", "length", 64)

task = Task(
    attention,
    inputs={"q": tensor(*SHAPE), "k": tensor(*SHAPE), "v": tensor(*SHAPE)},
    public=[{"batch": 1, "heads": 2, "length": 256}],
    hidden={"batch": (1, 2), "heads": (1, 3), "length": (40, 300)},
    dtypes=("float16",),
)
