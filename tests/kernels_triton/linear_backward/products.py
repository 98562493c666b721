"""Gradients of a linear layer: two products by one autotuned kernel over strides, and a sum over rows."""

import torch
import triton
import triton.language as tl


@triton.autotune(
    configs=[
        triton.Config({"M": 32, "N": 32, "K": 32}, num_warps=4),
        triton.Config({"M": 64, "N": 64, "K": 32}, num_warps=4),
    ],
    key=["rows", "outs", "depth"],
)
@triton.jit
def product_kernel(a, b, out, rows, outs, depth, a_m, a_k, b_k, b_n, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    m = (tl.program_id(0) * M + tl.arange(0, M)).to(tl.int64)
    n = (tl.program_id(1) * N + tl.arange(0, N)).to(tl.int64)
    total = tl.zeros([M, N], tl.float32)
    for begin in range(0, depth, K):
        k = (begin + tl.arange(0, K)).to(tl.int64)
        left = tl.load(
            a + m[:, None] * a_m + k[None, :] * a_k, mask=(m < rows)[:, None] & (k < depth)[None, :], other=0.0
        )
        right = tl.load(
            b + k[:, None] * b_k + n[None, :] * b_n, mask=(k < depth)[:, None] & (n < outs)[None, :], other=0.0
        )
        total = tl.dot(left, right, total, input_precision="ieee")
    tl.store(out + m[:, None] * outs + n[None, :], total, mask=(m < rows)[:, None] & (n < outs)[None, :])


def product(a, b):
    rows, depth = a.shape
    outs = b.shape[1]
    out = torch.empty((rows, outs), device=a.device, dtype=a.dtype)
    grid = lambda meta: (triton.cdiv(rows, meta["M"]), triton.cdiv(outs, meta["N"]))  # noqa: E731
    product_kernel[grid](a, b, out, rows, outs, depth, *a.stride(), *b.stride())
    return out


def backward(grad_out, x, weight):
    return product(grad_out, weight), product(grad_out.t(), x), grad_out.sum(0)
