"""A product in float16 by one program for each multiprocessor, tiles by host tensor descriptors. Autotuned."""

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor


def set_boxes(given):
    if isinstance(given["a"], TensorDescriptor):
        given["a"].block_shape = [given["M"], given["K"]]
        given["b"].block_shape = [given["K"], given["N"]]


@triton.autotune(
    configs=[
        triton.Config({"M": 128, "N": 128, "K": 64}, num_warps=8, num_stages=3, pre_hook=set_boxes),
        triton.Config({"M": 64, "N": 128, "K": 64}, num_warps=4, num_stages=4, pre_hook=set_boxes),
        triton.Config({"M": 128, "N": 256, "K": 128}, num_warps=8, num_stages=5, pre_hook=set_boxes),
    ],
    key=["rows", "outs", "depth"],
)
@triton.jit
def product_kernel(
    a, b, out, rows, outs, depth, DESCRIBED: tl.constexpr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr
):
    tiles_n = tl.cdiv(outs, N)
    for tile in tl.range(tl.program_id(0), tl.cdiv(rows, M) * tiles_n, tl.num_programs(0)):
        m0, n0 = tile // tiles_n * M, tile % tiles_n * N
        m, n = m0 + tl.arange(0, M), n0 + tl.arange(0, N)
        total = tl.zeros([M, N], tl.float32)
        for k0 in range(0, depth, K):
            if DESCRIBED:
                left, right = a.load([m0, k0]), b.load([k0, n0])
            else:
                k = k0 + tl.arange(0, K)
                at = m[:, None] * depth + k[None, :]
                left = tl.load(a + at, mask=(m < rows)[:, None] & (k < depth)[None, :], other=0.0)
                at = k[:, None] * outs + n[None, :]
                right = tl.load(b + at, mask=(k < depth)[:, None] & (n < outs)[None, :], other=0.0)
            total = tl.dot(left, right, total)
        at = m.to(tl.int64)[:, None] * outs + n[None, :]
        tl.store(out + at, total.to(tl.float16), mask=(m < rows)[:, None] & (n < outs)[None, :])


def forward(a, b):
    (rows, depth), outs = a.shape, b.shape[1]
    out = torch.empty((rows, outs), device=a.device, dtype=a.dtype)
    described = depth % 8 == 0 and outs % 8 == 0
    if described:
        a = TensorDescriptor.from_tensor(a, [1, 8])  # the configuration sets the boxes
        b = TensorDescriptor.from_tensor(b, [1, 8])
    processors = torch.cuda.get_device_properties("cuda").multi_processor_count

    def grid(meta):
        return (min(processors, triton.cdiv(rows, meta["M"]) * triton.cdiv(outs, meta["N"])),)

    product_kernel[grid](a, b, out, rows, outs, depth, described)
    return out
