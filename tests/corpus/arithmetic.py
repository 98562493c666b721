"""Ways to carry out the same formula: orders of summation, fast-math, and the downcasts that must not pass."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch

Tensor = torch.Tensor
Unary = Callable[[Tensor], Tensor]
Sum = Callable[[Tensor, int], Tensor]
Product = Callable[[Tensor, Tensor], Tensor]

LANES = 32
CHUNK = 256


def same(x: Tensor) -> Tensor:
    return x


# --- rounding to a narrower format, kept in float32 ---------------------------------------------------------


def to_tf32(x: Tensor) -> Tensor:
    """Nearest, ties away from zero, as `cvt.rna.tf32` does."""
    bits = x.float().contiguous().view(torch.int32)
    return ((bits + 0x1000) & ~0x1FFF).view(torch.float32)


def to_bf16(x: Tensor) -> Tensor:
    return x.bfloat16().float()


def to_fp16(x: Tensor) -> Tensor:
    return x.half().float()


def without_six_bits(x: Tensor) -> Tensor:
    return (x.contiguous().view(torch.int32) & ~0x3F).view(torch.float32)


# --- sums over one axis, which is kept ----------------------------------------------------------------------


def library_sum(x: Tensor, dim: int) -> Tensor:
    return x.sum(dim, keepdim=True)


def sequential_sum(x: Tensor, dim: int, form: torch.dtype = torch.float32) -> Tensor:
    """Left to right, one addition after the other."""
    terms = x.to(form).movedim(dim, 0).contiguous()
    total = torch.zeros_like(terms[0])
    for term in terms.unbind(0):
        total.add_(term)
    return total.float().unsqueeze(dim)


def reversed_sum(x: Tensor, dim: int) -> Tensor:
    return sequential_sum(x.flip(dim), dim)


def lane_sum(x: Tensor, dim: int, form: torch.dtype = torch.float32) -> Tensor:
    """One running sum for each of 32 lanes, then a tree over the lanes, as a warp does."""
    terms = x.to(form).movedim(dim, 0)
    pad = -terms.shape[0] % LANES
    terms = torch.cat((terms, terms.new_zeros(pad, *terms.shape[1:]))) if pad else terms
    lanes = torch.zeros_like(terms[:LANES])
    for part in terms.split(LANES):
        lanes = lanes + part
    while lanes.shape[0] > 1:
        half = lanes.shape[0] // 2
        lanes = lanes[:half] + lanes[half:]
    return lanes[0].float().unsqueeze(dim)


def double_sum(x: Tensor, dim: int) -> Tensor:
    return x.double().sum(dim, keepdim=True).float()


# --- matrix products (m, k) @ (k, n) ------------------------------------------------------------------------


def library_product(x: Tensor, y: Tensor) -> Tensor:
    return x @ y


def sequential_product(x: Tensor, y: Tensor, form: torch.dtype = torch.float32) -> Tensor:
    """One rank-1 update after the other: every element is a left-to-right sum of rounded products."""
    total = x.new_zeros(x.shape[0], y.shape[1], dtype=form)
    for k in range(x.shape[1]):
        total += (x[:, k : k + 1] * y[k]).to(form)
    return total.float()


def reversed_product(x: Tensor, y: Tensor) -> Tensor:
    return sequential_product(x.flip(1), y.flip(0))


def split_product(x: Tensor, y: Tensor) -> Tensor:
    """Split-K: parts of 256 terms, added one after the other."""
    total = x.new_zeros(x.shape[0], y.shape[1])
    for a, b in zip(x.split(CHUNK, 1), y.split(CHUNK, 0), strict=True):
        total += a @ b
    return total


def double_product(x: Tensor, y: Tensor) -> Tensor:
    return (x.double() @ y.double()).float()


def parts_of(x: Tensor, count: int, shorten: Unary) -> list[Tensor]:
    """x as a sum of `count` values of a narrower format, and a rest."""
    found = []
    for _ in range(count):
        found.append(shorten(x))
        x = x - found[-1]
    return found


def parts_product(x: Tensor, y: Tensor, shorten: Unary, parts: tuple[int, int], most: int) -> Tensor:
    """The products of part i of x and part j of y with i + j at most `most`, small ones first."""
    left, right = parts_of(x, parts[0], shorten), parts_of(y, parts[1], shorten)
    pairs = [(p, q) for i, p in enumerate(left) for j, q in enumerate(right) if i + j <= most]
    total = x.new_zeros(x.shape[0], y.shape[1])
    for p, q in reversed(pairs):
        total = total + p @ q
    return total


def promoted_product(x: Tensor, y: Tensor) -> Tensor:
    """3xTF32 on a tensor core that cuts its sums; after 32 terms they move into an ordinary accumulator."""
    (xh, xl), (yh, yl) = parts_of(x, 2, to_tf32), parts_of(y, 2, to_tf32)
    total = x.new_zeros(x.shape[0], y.shape[1])
    for start in range(0, x.shape[1], 32):
        inside = torch.zeros_like(total, dtype=torch.float64)
        for first in range(start, min(start + 32, x.shape[1]), 8):
            k = slice(first, first + 8)
            for left, right in ((xl, yh), (xh, yl), (xh, yh)):
                inside = cut(inside + left[:, k].double() @ right[k].double())
        total = total + inside.float()
    return total


def cut(x: Tensor) -> Tensor:
    """The leading 24 bits of float64 values, as a tensor core keeps them: cut, not rounded."""
    return (x.contiguous().view(torch.int64) & ~((1 << 29) - 1)).view(torch.float64)


# --- functions with a given relative error ------------------------------------------------------------------


def off_by(function: Unary, relative: float) -> Unary:
    """The function with a relative error that changes from element to element and reaches `relative`.

    Zero is left alone: exp(0) is 1 in any implementation.
    """

    def inexact(x: Tensor) -> Tensor:
        y = function(x)
        generator = torch.Generator().manual_seed(x.numel())
        return torch.where(x == 0, y, y * (1 + relative * (2 * torch.rand(y.shape, generator=generator) - 1)))

    return inexact


@dataclass(frozen=True)
class Arithmetic:
    """One way to compute. `load` is applied to the inputs, `inner` to the operands of products and the
    arguments of exp, `store` to the results. `needs` says what an operation must have for this way to
    differ from others: a sum, a product, a function, or an inner operand.
    """

    sum: Sum = library_sum
    product: Product = library_product
    exp: Unary = torch.exp
    log: Unary = torch.log
    rsqrt: Unary = torch.rsqrt
    reciprocal: Unary = torch.reciprocal
    divide_by_reciprocal: bool = False
    load: Unary = same
    inner: Unary = same
    store: Unary = same
    needs: frozenset[str] = frozenset()

    def divide(self, x: Tensor, y: Tensor) -> Tensor:
        return x * self.reciprocal(y) if self.divide_by_reciprocal else x / y

    def multiply(self, x: Tensor, y: Tensor) -> Tensor:
        return self.product(self.inner(x), self.inner(y))


def _functions_off_by(relative: float, summing: Sum, product: Product) -> Arithmetic:
    return Arithmetic(
        sum=summing,
        product=product,
        exp=off_by(torch.exp, relative),
        log=off_by(torch.log, relative),
        rsqrt=off_by(torch.rsqrt, relative),
        reciprocal=off_by(torch.reciprocal, relative),
        divide_by_reciprocal=True,
        needs=frozenset({"function"}),
    )


def _sums(summing: Sum, product: Product) -> Arithmetic:
    return Arithmetic(sum=summing, product=product, needs=frozenset({"sum", "product"}))


def _product(shorten: Unary, parts: tuple[int, int], most: int) -> Arithmetic:
    product = partial(parts_product, shorten=shorten, parts=parts, most=most)
    return Arithmetic(product=product, needs=frozenset({"product"}))


HONEST: dict[str, Arithmetic] = {
    "library": Arithmetic(),
    "sequential": _sums(sequential_sum, sequential_product),
    "reversed": _sums(reversed_sum, reversed_product),
    "lanes": _sums(lane_sum, split_product),
    "float64 sums": _sums(double_sum, double_product),
    "fast-math": _functions_off_by(2.0**-22, lane_sum, library_product),
    "fast-math, sequential": _functions_off_by(2.0**-22, sequential_sum, sequential_product),
    "3xTF32": _product(to_tf32, (2, 2), 1),
    "3xTF32, promoted": Arithmetic(product=promoted_product, needs=frozenset({"product"})),
    "bf16x6": _product(to_bf16, (3, 3), 2),
    "bf16x9": _product(to_bf16, (3, 3), 4),
}

DOWNCASTS: dict[str, Arithmetic] = {
    "inputs as TF32": Arithmetic(load=to_tf32),
    "inputs as fp16": Arithmetic(load=to_fp16),
    "inputs as bf16": Arithmetic(load=to_bf16),
    "inner TF32": Arithmetic(inner=to_tf32, needs=frozenset({"inner"})),
    "inner fp16": Arithmetic(inner=to_fp16, needs=frozenset({"inner"})),
    "inner bf16": Arithmetic(inner=to_bf16, needs=frozenset({"inner"})),
    "sums in fp16": _sums(partial(lane_sum, form=torch.float16), partial(sequential_product, form=torch.float16)),
    "sums in bf16": _sums(partial(lane_sum, form=torch.bfloat16), partial(sequential_product, form=torch.bfloat16)),
    "results through fp16": Arithmetic(store=to_fp16),
    "results through bf16": Arithmetic(store=to_bf16),
    "functions to 2^-10": _functions_off_by(2.0**-10, library_sum, library_product),
    "2xTF32, left": _product(to_tf32, (2, 1), 1),
    "2xTF32, right": _product(to_tf32, (1, 2), 1),
    "bf16x3": _product(to_bf16, (2, 2), 1),
    "bf16x4": _product(to_bf16, (2, 2), 2),
    "fp16x2, left": _product(to_fp16, (2, 1), 1),
    "fp16x3": _product(to_fp16, (2, 2), 1),
    "six bits dropped": Arithmetic(store=without_six_bits, needs=frozenset({"move"})),
}
