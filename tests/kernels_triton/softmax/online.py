"""Softmax in two passes over a row of any length: maximum and sum together, then the quotients. Autotuned."""

import torch
import triton
import triton.language as tl

CONFIGS = [triton.Config({"BLOCK": block}, num_warps=warps) for block in (1024, 2048, 4096) for warps in (4, 8)]


@triton.autotune(configs=CONFIGS, key=["cols"])
@triton.jit
def online_kernel(x, out, cols, BLOCK: tl.constexpr):
    x += tl.program_id(0).to(tl.int64) * cols
    out += tl.program_id(0).to(tl.int64) * cols
    most = tl.full([BLOCK], -float("inf"), tl.float32)
    total = tl.zeros([BLOCK], tl.float32)
    for begin in range(0, cols, BLOCK):
        at = begin + tl.arange(0, BLOCK)
        values = tl.load(x + at, mask=at < cols, other=-float("inf"))
        higher = tl.maximum(most, values)
        shift = tl.where(higher == -float("inf"), 0.0, higher)
        total = total * tl.exp(most - shift) + tl.exp(values - shift)
        most = higher
    peak = tl.max(most, axis=0)
    total = tl.sum(total * tl.exp(most - peak), axis=0)
    for begin in range(0, cols, BLOCK):
        at = begin + tl.arange(0, BLOCK)
        values = tl.load(x + at, mask=at < cols, other=-float("inf"))
        tl.store(out + at, tl.exp(values - peak) / total, mask=at < cols)


def forward(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    online_kernel[(x.shape[0],)](x, out, x.shape[1])
    return out
