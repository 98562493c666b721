"""Gradients of layer normalisation: those of weight and bias are added up by atomics into zeroed memory."""

import torch
import triton
import triton.language as tl


@triton.jit
def backward_kernel(grad, x, weight, grad_x, grad_w, grad_b, rows, cols, eps, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    mask = at < cols
    scales = tl.load(weight + at, mask=mask, other=0.0)
    for_weight = tl.zeros([BLOCK], tl.float32)
    for_bias = tl.zeros([BLOCK], tl.float32)
    for i in range(ROWS):
        row = tl.program_id(0).to(tl.int64) * ROWS + i
        live = mask & (row < rows)
        values = tl.load(x + row * cols + at, mask=live, other=0.0)
        upstream = tl.load(grad + row * cols + at, mask=live, other=0.0)
        off = tl.where(live, values - tl.sum(values, axis=0) / cols, 0.0)
        inverse = 1 / tl.sqrt_rn(tl.sum(off * off, axis=0) / cols + eps)
        normed = off * inverse
        scaled = upstream * scales
        first = tl.sum(scaled, axis=0) / cols
        second = tl.sum(scaled * normed, axis=0) / cols
        tl.store(grad_x + row * cols + at, inverse * (scaled - first - normed * second), mask=live)
        for_weight += upstream * normed
        for_bias += upstream
    tl.atomic_add(grad_w + at, for_weight, mask=mask)
    tl.atomic_add(grad_b + at, for_bias, mask=mask)


def layer_norm_bwd(dout, x, weight, bias, eps):
    rows, cols = x.shape
    grad_x = torch.empty_like(x)
    grad_w, grad_b = torch.zeros_like(weight), torch.zeros_like(bias)
    block = triton.next_power_of_2(cols)
    each = triton.cdiv(rows, 2 * torch.cuda.get_device_properties(0).multi_processor_count)
    backward_kernel[(triton.cdiv(rows, each),)](
        dout, x, weight, grad_x, grad_w, grad_b, rows, cols, eps, ROWS=each, BLOCK=block, num_warps=8
    )
    return grad_x, grad_w, grad_b
