"""The kernels of arithmetic.py: element by element with broadcasting, and sums. Sizes are innermost first."""

# mypy: ignore-errors
import triton
import triton.language as tl


@triton.jit
def kw_elementwise(
    out,
    left,
    right,
    count,
    scalar,
    sizes,
    out_strides,
    left_strides,
    right_strides,
    RANK: tl.constexpr,
    OPERATION: tl.constexpr,
    SCALAR: tl.constexpr,
    MATH: tl.constexpr,
    BLOCK: tl.constexpr,
):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    rest, to, a_at, b_at = at, at * 0, at * 0, at * 0
    for d in tl.static_range(RANK):
        i = rest % sizes[d]
        rest = rest // sizes[d]
        to += i * out_strides[d]
        a_at += i * left_strides[d]
        b_at += i * right_strides[d]
    mask = at < count
    if OPERATION == 20:
        a = tl.zeros([BLOCK], MATH) + scalar
    else:
        a = tl.load(left + a_at, mask=mask)
        if OPERATION != 0:
            a = a.to(MATH)
    if SCALAR:
        b = tl.zeros([BLOCK], MATH) + scalar
    elif OPERATION >= 1 and OPERATION < 10:
        b = tl.load(right + b_at, mask=mask).to(MATH)
    else:
        b = a
    if OPERATION == 1:
        a = a + b
    elif OPERATION == 2:
        a = a - b
    elif OPERATION == 3:
        a = a * b
    elif OPERATION == 4:
        a = a / b
    elif OPERATION == 5:
        a = b - a
    elif OPERATION == 6:
        a = tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)
    elif OPERATION == 7:
        a = tl.minimum(a, b, propagate_nan=tl.PropagateNan.ALL)
    elif OPERATION == 10:
        a = -a
    elif OPERATION == 11:
        a = tl.exp(a)
    elif OPERATION == 12:
        a = tl.log(a)
    elif OPERATION == 13:
        a = tl.sqrt_rn(a)
    elif OPERATION == 14:
        a = 1 / tl.sqrt_rn(a)
    elif OPERATION == 15:
        a = 1 / a
    elif OPERATION == 16:
        a = tl.abs(a)
    elif OPERATION == 17:
        a = tl.maximum(a, 0.0, propagate_nan=tl.PropagateNan.ALL)
    tl.store(out + to, a.to(out.dtype.element_ty), mask=mask)


@triton.jit
def kw_sum(
    out,
    values,
    outs,
    count,
    scale,
    out_sizes,
    out_strides,
    kept_strides,
    sum_sizes,
    sum_strides,
    OUT_RANK: tl.constexpr,
    SUM_RANK: tl.constexpr,
    MATH: tl.constexpr,
    SCALED: tl.constexpr,
    OUT_BLOCK: tl.constexpr,
    SUM_BLOCK: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64) * OUT_BLOCK + tl.arange(0, OUT_BLOCK)
    rest, to, base = row, row * 0, row * 0
    for d in tl.static_range(OUT_RANK):
        i = rest % out_sizes[d]
        rest = rest // out_sizes[d]
        to += i * out_strides[d]
        base += i * kept_strides[d]
    total = tl.zeros([OUT_BLOCK, SUM_BLOCK], MATH)
    for first in range(0, count, SUM_BLOCK):
        k = first + tl.arange(0, SUM_BLOCK).to(tl.int64)
        left, offset = k, k * 0
        for d in tl.static_range(SUM_RANK):
            j = left % sum_sizes[d]
            left = left // sum_sizes[d]
            offset += j * sum_strides[d]
        mask = (row < outs)[:, None] & (k < count)[None, :]
        total += tl.load(values + base[:, None] + offset[None, :], mask=mask, other=0).to(MATH)
    result = tl.sum(total, axis=1)
    if SCALED:
        result = result * scale
    tl.store(out + to, result.to(out.dtype.element_ty), mask=row < outs)
