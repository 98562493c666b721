"""A linear layer in float32 (`input_precision="ieee"`), tiles in groups for the cache. Autotuned."""

import torch
import triton
import triton.language as tl

TILES = [
    triton.Config({"M": 64, "N": 64, "K": 32, "GROUP": 8}, num_warps=4, num_stages=3),
    triton.Config({"M": 128, "N": 64, "K": 32, "GROUP": 8}, num_warps=8, num_stages=3),
    triton.Config({"M": 32, "N": 32, "K": 32, "GROUP": 4}, num_warps=2, num_stages=4),
]


@triton.autotune(configs=TILES, key=["rows", "outs", "ins"])
@triton.jit
def linear_kernel(
    x, w, b, out, rows, outs, ins, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, GROUP: tl.constexpr
):
    number = tl.program_id(0)
    tiles_m, tiles_n = tl.cdiv(rows, M), tl.cdiv(outs, N)
    group = number // (GROUP * tiles_n)
    first = group * GROUP
    height = min(tiles_m - first, GROUP)
    tile_m = first + (number % (GROUP * tiles_n)) % height
    tile_n = (number % (GROUP * tiles_n)) // height
    m = (tile_m * M + tl.arange(0, M)).to(tl.int64)
    n = (tile_n * N + tl.arange(0, N)).to(tl.int64)
    total = tl.zeros([M, N], tl.float32)
    for begin in range(0, ins, K):
        k = begin + tl.arange(0, K)
        left = tl.load(x + m[:, None] * ins + k[None, :], mask=(m < rows)[:, None] & (k < ins)[None, :], other=0.0)
        right = tl.load(w + n[None, :] * ins + k[:, None], mask=(n < outs)[None, :] & (k < ins)[:, None], other=0.0)
        total = tl.dot(left, right, total, input_precision="ieee")
    total += tl.load(b + n, mask=n < outs, other=0.0)[None, :]
    tl.store(out + m[:, None] * outs + n[None, :], total, mask=(m < rows)[:, None] & (n < outs)[None, :])


def linear(x, weight, bias):
    rows, ins = x.shape
    outs = weight.shape[0]
    out = torch.empty((rows, outs), device=x.device, dtype=x.dtype)
    grid = lambda meta: (triton.cdiv(rows, meta["M"]) * triton.cdiv(outs, meta["N"]),)  # noqa: E731
    linear_kernel[grid](x, weight, bias, out, rows, outs, ins)
    return out
