"""Gradients of RMS normalisation: each program takes rows and keeps a sum for the weight, which torch adds up."""

import torch
import triton
import triton.language as tl


@triton.jit
def backward_kernel(grad, x, weight, grad_x, partial, rows, cols, eps, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    mask = at < cols
    scales = tl.load(weight + at, mask=mask, other=0.0)
    total = tl.zeros([BLOCK], tl.float32)
    for row in range(tl.program_id(0), rows, tl.num_programs(0)):
        base = row.to(tl.int64) * cols
        values = tl.load(x + base + at, mask=mask, other=0.0)
        upstream = tl.load(grad + base + at, mask=mask, other=0.0)
        inverse = 1 / tl.sqrt_rn(tl.sum(values * values, axis=0) / cols + eps)
        scaled = upstream * scales
        common = tl.sum(scaled * values, axis=0) * inverse * inverse / cols
        tl.store(grad_x + base + at, inverse * (scaled - values * common), mask=mask)
        total += upstream * values * inverse
    tl.store(partial + tl.program_id(0).to(tl.int64) * cols + at, total, mask=mask)


def backward(grad_out, x, weight, eps):
    rows, cols = x.shape
    programs = min(rows, torch.cuda.get_device_properties(x.device).multi_processor_count)
    grad_x = torch.empty_like(x)
    partial = torch.empty((programs, cols), dtype=torch.float32, device=x.device)
    block = triton.next_power_of_2(cols)
    backward_kernel[(programs,)](grad_out, x, weight, grad_x, partial, rows, cols, eps, BLOCK=block, num_warps=8)
    return grad_x, partial.sum(dim=0).to(weight.dtype)
