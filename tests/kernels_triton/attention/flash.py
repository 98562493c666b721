"""Causal flash attention, forward and backward, as an autograd function: the backward computes the scores again."""

import math

import torch
import triton
import triton.language as tl

HEAD = 64


@triton.autotune(
    configs=[
        triton.Config({"M": 64, "N": 32}, num_warps=4, num_stages=3),
        triton.Config({"M": 64, "N": 64}, num_warps=4, num_stages=2),
        triton.Config({"M": 128, "N": 64}, num_warps=8, num_stages=3),
    ],
    key=["length"],
)
@triton.jit
def forward_kernel(q, k, v, out, sums, length, scale, D: tl.constexpr, M: tl.constexpr, N: tl.constexpr):
    head = tl.program_id(1).to(tl.int64)
    base = head * length * D
    m = tl.program_id(0) * M + tl.arange(0, M)
    d = tl.arange(0, D)
    rows = (m < length)[:, None]
    queries = tl.load(q + base + m[:, None] * D + d[None, :], mask=rows, other=0.0)
    most = tl.full([M], -float("inf"), tl.float32)
    total = tl.zeros([M], tl.float32)
    result = tl.zeros([M, D], tl.float32)
    for begin in range(0, min((tl.program_id(0) + 1) * M, length), N):
        n = begin + tl.arange(0, N)
        inside = (n < length)[:, None]
        keys = tl.load(k + base + n[:, None] * D + d[None, :], mask=inside, other=0.0)
        scores = tl.dot(queries, keys.T) * scale
        scores = tl.where((m[:, None] >= n[None, :]) & (n < length)[None, :], scores, -float("inf"))
        higher = tl.maximum(most, tl.max(scores, axis=1))
        weights = tl.exp(scores - higher[:, None])
        shrink = tl.exp(most - higher)
        total = total * shrink + tl.sum(weights, axis=1)
        values = tl.load(v + base + n[:, None] * D + d[None, :], mask=inside, other=0.0)
        result = result * shrink[:, None] + tl.dot(weights, values.to(tl.float32), input_precision="ieee")
        most = higher
    tl.store(sums + head * length + m, most + tl.log(total), mask=m < length)
    result = (result / total[:, None]).to(tl.float16)
    tl.store(out + base + m[:, None] * D + d[None, :], result, mask=rows)


@triton.jit
def delta_kernel(q, k, v, grad, sums, delta, length, scale, D: tl.constexpr, M: tl.constexpr, N: tl.constexpr):
    """Sums of weights times their gradients, in float32: the rounded output would lose them to cancellation."""
    head = tl.program_id(1).to(tl.int64)
    base = head * length * D
    m = tl.program_id(0) * M + tl.arange(0, M)
    d = tl.arange(0, D)
    rows = (m < length)[:, None]
    queries = tl.load(q + base + m[:, None] * D + d[None, :], mask=rows, other=0.0)
    upstream = tl.load(grad + base + m[:, None] * D + d[None, :], mask=rows, other=0.0)
    level = tl.load(sums + head * length + m, mask=m < length, other=0.0)
    total = tl.zeros([M], tl.float32)
    weight = tl.zeros([M], tl.float32)  # one, but for what large scores lose
    for begin in range(0, min((tl.program_id(0) + 1) * M, length), N):
        n = begin + tl.arange(0, N)
        inside = (n < length)[:, None]
        keys = tl.load(k + base + n[:, None] * D + d[None, :], mask=inside, other=0.0)
        values = tl.load(v + base + n[:, None] * D + d[None, :], mask=inside, other=0.0)
        allowed = (m[:, None] >= n[None, :]) & (n < length)[None, :]
        weights = tl.where(allowed, tl.exp(tl.dot(queries, keys.T) * scale - level[:, None]), 0.0)
        total += tl.sum(weights * tl.dot(upstream, values.T), axis=1)
        weight += tl.sum(weights, axis=1)
    tl.store(delta + head * length + m, total / weight, mask=m < length)


@triton.jit
def key_value_kernel(
    q, k, v, grad, sums, delta, dk, dv, length, scale, D: tl.constexpr, M: tl.constexpr, N: tl.constexpr
):
    head = tl.program_id(1).to(tl.int64)
    base = head * length * D
    n = tl.program_id(0) * N + tl.arange(0, N)
    d = tl.arange(0, D)
    inside = (n < length)[:, None]
    keys = tl.load(k + base + n[:, None] * D + d[None, :], mask=inside, other=0.0)
    values = tl.load(v + base + n[:, None] * D + d[None, :], mask=inside, other=0.0)
    for_keys = tl.zeros([N, D], tl.float32)
    for_values = tl.zeros([N, D], tl.float32)
    for begin in range(tl.program_id(0) * N // M * M, length, M):
        m = begin + tl.arange(0, M)
        rows = (m < length)[:, None]
        queries = tl.load(q + base + m[:, None] * D + d[None, :], mask=rows, other=0.0)
        upstream = tl.load(grad + base + m[:, None] * D + d[None, :], mask=rows, other=0.0)
        level = tl.load(sums + head * length + m, mask=m < length, other=0.0)
        scores = tl.dot(queries, keys.T) * scale
        allowed = (m[:, None] >= n[None, :]) & (m < length)[:, None] & (n < length)[None, :]
        weights = tl.where(allowed, tl.exp(scores - level[:, None]), 0.0)
        for_values += tl.dot(weights.T, upstream.to(tl.float32), input_precision="ieee")
        common = tl.load(delta + head * length + m, mask=m < length, other=0.0)
        slope = weights * (tl.dot(upstream, values.T) - common[:, None]) * scale
        for_keys += tl.dot(slope.T, queries.to(tl.float32), input_precision="ieee")
    tl.store(dk + base + n[:, None] * D + d[None, :], for_keys.to(tl.float16), mask=inside)
    tl.store(dv + base + n[:, None] * D + d[None, :], for_values.to(tl.float16), mask=inside)


@triton.jit
def query_kernel(q, k, v, grad, sums, delta, dq, length, scale, D: tl.constexpr, M: tl.constexpr, N: tl.constexpr):
    head = tl.program_id(1).to(tl.int64)
    base = head * length * D
    m = tl.program_id(0) * M + tl.arange(0, M)
    d = tl.arange(0, D)
    rows = (m < length)[:, None]
    queries = tl.load(q + base + m[:, None] * D + d[None, :], mask=rows, other=0.0)
    upstream = tl.load(grad + base + m[:, None] * D + d[None, :], mask=rows, other=0.0)
    level = tl.load(sums + head * length + m, mask=m < length, other=0.0)
    common = tl.load(delta + head * length + m, mask=m < length, other=0.0)
    result = tl.zeros([M, D], tl.float32)
    for begin in range(0, min((tl.program_id(0) + 1) * M, length), N):
        n = begin + tl.arange(0, N)
        inside = (n < length)[:, None]
        keys = tl.load(k + base + n[:, None] * D + d[None, :], mask=inside, other=0.0)
        values = tl.load(v + base + n[:, None] * D + d[None, :], mask=inside, other=0.0)
        scores = tl.dot(queries, keys.T) * scale
        allowed = (m[:, None] >= n[None, :]) & (n < length)[None, :]
        weights = tl.where(allowed, tl.exp(scores - level[:, None]), 0.0)
        slope = weights * (tl.dot(upstream, values.T) - common[:, None]) * scale
        result += tl.dot(slope, keys.to(tl.float32), input_precision="ieee")
    tl.store(dq + base + m[:, None] * D + d[None, :], result.to(tl.float16), mask=rows)


class FlashAttention(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v):
        batch, heads, length, head = q.shape
        assert head == HEAD
        out = torch.empty_like(q)
        sums = torch.empty((batch, heads, length), device=q.device, dtype=torch.float32)
        scale = 1 / math.sqrt(head)
        grid = lambda meta: (triton.cdiv(length, meta["M"]), batch * heads)  # noqa: E731
        forward_kernel[grid](q, k, v, out, sums, length, scale, D=head)
        ctx.save_for_backward(q, k, v, sums)
        ctx.scale = scale
        return out

    @staticmethod
    def backward(ctx, grad):
        q, k, v, sums = ctx.saved_tensors
        batch, heads, length, head = q.shape
        delta = torch.empty_like(sums)
        dq, dk, dv = torch.empty_like(q), torch.empty_like(k), torch.empty_like(v)
        grid = (triton.cdiv(length, 64), batch * heads)
        delta_kernel[grid](q, k, v, grad, sums, delta, length, ctx.scale, D=head, M=64, N=32, num_warps=4)
        key_value_kernel[grid](q, k, v, grad, sums, delta, dk, dv, length, ctx.scale, D=head, M=32, N=64, num_warps=4)
        query_kernel[grid](q, k, v, grad, sums, delta, dq, length, ctx.scale, D=head, M=64, N=32, num_warps=4)
        return dq, dk, dv


attention = FlashAttention.apply
