"""The gradient of the maximum over windows: to the first largest of each, and zero elsewhere."""

import torch
import triton
import triton.language as tl


@triton.jit
def spread_kernel(grad, x, out, count, height, width, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = at < count
    out_width, out_height = width // 2, height // 2
    col = at % out_width
    row = (at // out_width) % out_height
    plane = at // (out_width * out_height)
    base = plane * height * width + row * 2 * width + col * 2
    best = tl.load(x + base, mask=mask)
    place = base
    for i in tl.static_range(1, 4):
        there = base + (i // 2) * width + i % 2
        value = tl.load(x + there, mask=mask)
        better = (value > best) | (value != value)
        best = tl.where(better, value, best)
        place = tl.where(better, there, place)
    upstream = tl.load(grad + at, mask=mask)
    for i in tl.static_range(4):
        there = base + (i // 2) * width + i % 2
        tl.store(out + there, tl.where(place == there, upstream, 0.0), mask=mask)


def backward(grad_out, x):
    height, width = x.shape[2:]
    grad_x = torch.zeros_like(x) if height % 2 or width % 2 else torch.empty_like(x)
    count = grad_out.numel()
    spread_kernel[(triton.cdiv(count, 512),)](grad_out, x, grad_x, count, height, width, BLOCK=512)
    return grad_x
