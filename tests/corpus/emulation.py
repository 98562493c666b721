"""Carries out any reference by any arithmetic: every sum, product and function of it is replaced, step by step."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch._decomp import decomposition_table
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._python_dispatch import TorchDispatchMode

from corpus.arithmetic import (
    HONEST,
    Arithmetic,
    Tensor,
    lane_sum,
    off_by,
    same,
    sequential_sum,
    to_bf16,
)
from kernelwright.judge.oracle.errors.shortened import kept
from kernelwright.judge.oracle.errors.yardstick import FUSED, axes_last
from kernelwright.judge.oracle.right.fused import PARTS
from kernelwright.tasks.model import Task
from kernelwright.tasks.reference import Argument, run_reference

aten = torch.ops.aten
LOG2E = 1.4426950408889634

# --- products of shortened factors, in float32 ----------------------------------------------------------------


@dataclass(frozen=True)
class PartsProduct:
    """Products of part i of one factor and part j of the other with i + j <= most, small ones first."""

    bits: int
    left: int
    right: int
    most: int
    nearest: bool = True

    def split(self, x: Tensor, parts: int) -> list[Tensor]:
        found, rest = [], x.float()
        for _ in range(parts):
            found.append(kept(rest, self.bits, self.nearest))
            rest = rest - found[-1]
        return found

    def pairs(self) -> list[tuple[int, int]]:
        found = [(i, j) for i in range(self.left) for j in range(self.right) if i + j <= self.most]
        return found[::-1]

    def __call__(self, x: Tensor, y: Tensor) -> Tensor:
        first, second = self.split(x, self.left), self.split(y, self.right)
        total = x.new_zeros(())
        for i, j in self.pairs():
            total = total + first[i] @ second[j]
        return total


def promoted_product(x: Tensor, y: Tensor) -> Tensor:
    """3xTF32 in steps of 32 terms, each added to an accumulator outside of the tensor core."""
    tf32x3_product = PartsProduct(11, 2, 2, 1)
    total = x.new_zeros(*x.shape[:-1], y.shape[-1])
    for a, b in zip(x.split(32, -1), y.split(32, -2), strict=True):
        total = total + tf32x3_product(a, b)
    return total


def sequential_matrix_product(x: Tensor, y: Tensor) -> Tensor:
    total = x.new_zeros(*x.shape[:-1], y.shape[-1])
    for k in range(x.shape[-1]):
        total = total + x[..., k : k + 1] * y[..., k : k + 1, :]
    return total


def fma_product(x: Tensor, y: Tensor) -> Tensor:
    wide, other = x.double(), y.double()
    total = x.new_zeros(*x.shape[:-1], y.shape[-1])
    for k in range(x.shape[-1]):
        total = (total.double() + wide[..., k : k + 1] * other[..., k : k + 1, :]).float()
    return total


def split_matrix_product(x: Tensor, y: Tensor) -> Tensor:
    total = x.new_zeros(*x.shape[:-1], y.shape[-1])
    for a, b in zip(x.split(64, -1), y.split(64, -2), strict=True):
        total = total + a @ b
    return total


# --- functions --------------------------------------------------------------------------------------------------


def ex2_approx(x: Tensor) -> Tensor:
    """exp as fast-math has it: the product with log2(e) is rounded, and ex2.approx is off by up to 2 units."""
    t = (x * torch.tensor(LOG2E, dtype=torch.float32)).double()
    return (torch.exp2(t) * (1 + torch.sin(t * 1e4).nan_to_num(0.0) * 2.0**-22.5)).float()


def polynomial_exp(degree: int) -> Callable[[Tensor], Tensor]:
    import numpy as np

    f = np.cos(np.pi * (np.arange(64) + 0.5) / 64) / 2
    fit = np.polynomial.Polynomial.fit(f, np.exp2(f), degree, w=np.exp2(-f)).convert().coef

    def exp(x: Tensor) -> Tensor:
        t = (x.double() * LOG2E).clamp_min(-150)
        whole = torch.round(t)
        rest, total = t - whole, torch.zeros_like(t)
        for coefficient in fit[::-1]:
            total = total * rest + coefficient
        return (total * torch.exp2(whole)).float()

    return exp


def newton_rsqrt(x: Tensor) -> Tensor:
    """A start good to 12 bits and one Newton step: always a little too small."""
    y = kept(torch.rsqrt(x), 12, True)
    return y * (1.5 - 0.5 * x * y * y)


def fast_functions() -> dict[str, Callable[[Tensor], Tensor]]:
    return {
        "exp": ex2_approx,
        "log": off_by(torch.log, 2.0**-22),
        "rsqrt": newton_rsqrt,
        "reciprocal": off_by(torch.reciprocal, 2.0**-23),
    }


@dataclass(frozen=True)
class Emulation:
    """One kernel for any reference. `step` is applied to every intermediate result, `store` to the results."""

    arithmetic: Arithmetic
    honest: bool = True
    step: Callable[[Tensor], Tensor] = same
    store: Callable[[Tensor], Tensor] = same
    needs: str = ""  # an operation that the reference must have for this kernel to differ: sum, product, exp, rsqrt

    def run(self, task: Task, inputs: Mapping[str, Argument]) -> tuple[dict[str, Tensor], set[str]]:
        """Results, and which kinds of operation there were."""
        mode = _Emulating(self)
        with sdpa_kernel(SDPBackend.MATH), mode:
            results = run_reference(task, inputs, torch.float32)
        return {name: self.store(value.float()) for name, value in results.items()}, mode.met


class _Emulating(TorchDispatchMode):  # type: ignore[no-untyped-call]
    def __init__(self, kernel: Emulation) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.kernel, self.a = kernel, kernel.arithmetic
        self.met: set[str] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = str(func.overloadpacket.__name__)
        taken_apart = name in FUSED | {"silu", "silu_backward", "mse_loss_backward"}
        for steps in (PARTS.get(func), decomposition_table.get(func) if taken_apart else None):
            if steps is not None:
                with self:
                    whole = steps(*args, **kwargs)
                if whole is not NotImplemented:
                    return whole
        result = self._carried_out(name, func, args, kwargs)
        if (
            self.kernel.step is not same
            and isinstance(result, Tensor)
            and result.is_floating_point()
            and not func.is_view
        ):
            result.copy_(self.kernel.step(result))
        return result

    def _carried_out(self, name: str, func: Any, args: Any, kwargs: Any) -> Any:
        a, x = self.a, args[0] if args else None
        if not isinstance(x, Tensor) or x.dtype != torch.float32:
            return func(*args, **kwargs)
        if name in ("sum", "mean") and x.dim():
            self.met.add("sum")
            shaped = func(*args, **kwargs)
            axes = tuple(args[1]) if len(args) > 1 and args[1] else tuple(range(x.dim()))
            terms = axes_last(x, axes)
            total = a.sum(terms, -1).reshape(shaped.shape)
            return total if name == "sum" else total / terms.shape[-1]
        if name in ("mm", "bmm"):
            self.met.add("product")
            return a.product(x, args[1])
        if name in ("addmm", "baddbmm"):
            self.met.add("product")
            return a.product(args[1], args[2]) + x
        if name == "convolution" and args[8] == 1 and not args[6]:
            self.met.add("product")
            return self._convolved(*args)
        if name == "convolution_backward":
            self.met.add("product")
            return self._convolved_backward(func, args)
        simple = {"exp": a.exp, "log": a.log, "rsqrt": a.rsqrt, "reciprocal": a.reciprocal}
        if name in simple:
            self.met.add(name)
            return simple[name](x)
        if name == "sigmoid":
            self.met.add("exp")
            return a.reciprocal(1 + a.exp(-x)) if a.divide_by_reciprocal else 1 / (1 + a.exp(-x))
        if name == "div" and a.divide_by_reciprocal and isinstance(args[1], Tensor) and args[1].dtype == torch.float32:
            return x * a.reciprocal(args[1])
        return func(*args, **kwargs)

    def _convolved(
        self, x: Tensor, w: Tensor, bias: Tensor | None, stride: Any, padding: Any, dilation: Any, *_: Any
    ) -> Tensor:
        flat = x if x.dim() == 4 else x.unsqueeze(2)
        weight = w if w.dim() == 4 else w.unsqueeze(2)
        pad = lambda values, fill: (fill, *values) if len(values) == 1 else tuple(values)  # noqa: E731
        columns = torch.nn.functional.unfold(flat, weight.shape[2:], pad(dilation, 1), pad(padding, 0), pad(stride, 1))
        wide = self.a.product(weight.flatten(1).expand(len(x), -1, -1), columns)
        shape = aten.convolution.default(
            x.to("meta"), w.to("meta"), None, stride, padding, dilation, False, [0] * len(stride), 1
        ).shape
        y = wide.reshape(shape)
        return y if bias is None else y + bias.view(-1, *(1 for _ in shape[2:]))

    def _convolved_backward(self, func: Any, args: Any) -> Any:
        """By the library, from the parts of the factors. The gradient of a bias is a sum."""
        product = self.a.product
        whole = func(*args)
        if not isinstance(product, PartsProduct):
            return whole
        upstream = product.split(args[0], product.left)
        values, weights = (product.split(args[place], product.right) for place in (1, 2))
        totals: list[Tensor | None] = [None, None, whole[2]]
        for i, j in product.pairs():
            found = func(upstream[i], values[j], weights[j], *args[3:])
            for place in (0, 1):
                if found[place] is not None:
                    known = totals[place]
                    totals[place] = found[place] if known is None else known + found[place]
        return tuple(totals)


def _off(relative: float) -> Callable[[Tensor], Tensor]:
    return lambda y: y * torch.tensor(1 + relative, dtype=torch.float32)


_library = Arithmetic()
_fast = replace(_library, divide_by_reciprocal=True, sum=lane_sum, **fast_functions())
KERNELS: dict[str, Emulation] = {
    "library": Emulation(_library),
    "sequential": Emulation(replace(_library, sum=sequential_sum, product=sequential_matrix_product)),
    "reversed": Emulation(
        replace(HONEST["reversed"], product=lambda x, y: sequential_matrix_product(x.flip(-1), y.flip(-2)))
    ),
    "lanes, split-K": Emulation(replace(_library, sum=lane_sum, product=split_matrix_product)),
    "fma": Emulation(replace(_library, product=fma_product), needs="product"),
    "float64 inside": Emulation(replace(HONEST["float64 sums"])),
    "fast-math": Emulation(_fast),
    "fast-math, sequential": Emulation(replace(_fast, sum=sequential_sum, product=sequential_matrix_product)),
    "3xTF32, promoted": Emulation(replace(_library, product=promoted_product), needs="product"),
    "bf16x6": Emulation(replace(_library, product=PartsProduct(8, 3, 3, 2)), needs="product"),
    "bf16x9": Emulation(replace(_library, product=PartsProduct(8, 3, 3, 4)), needs="product"),
    "bias 2e-5": Emulation(_library, honest=False, store=_off(2e-5)),
    "bias 1e-6": Emulation(_library, honest=False, store=_off(1e-6)),
    "quartic exp": Emulation(replace(_library, exp=polynomial_exp(4)), honest=False, needs="exp"),
    "cubic exp": Emulation(replace(_library, exp=polynomial_exp(3)), honest=False, needs="exp"),
    "18-bit rsqrt": Emulation(
        replace(_library, rsqrt=lambda x: kept(torch.rsqrt(x), 18, True)), honest=False, needs="rsqrt"
    ),
    "18 bits, cut": Emulation(_library, honest=False, store=lambda y: kept(y, 18, False)),
    "18 bits, nearest": Emulation(_library, honest=False, store=lambda y: kept(y, 18, True)),
    "bf16 steps": Emulation(_library, honest=False, step=to_bf16),
    "TF32": Emulation(replace(_library, product=PartsProduct(11, 1, 1, 0)), honest=False, needs="product"),
    "TF32, cut": Emulation(replace(_library, product=PartsProduct(11, 1, 1, 0, False)), honest=False, needs="product"),
    "2xTF32, left": Emulation(replace(_library, product=PartsProduct(11, 2, 1, 1)), honest=False, needs="product"),
    "2xTF32, right": Emulation(replace(_library, product=PartsProduct(11, 1, 2, 1)), honest=False, needs="product"),
    "bf16x3": Emulation(replace(_library, product=PartsProduct(8, 2, 2, 1)), honest=False, needs="product"),
    "bf16x3, cut": Emulation(replace(_library, product=PartsProduct(8, 2, 2, 1, False)), honest=False, needs="product"),
    "bf16x4": Emulation(replace(_library, product=PartsProduct(8, 2, 2, 2)), honest=False, needs="product"),
}
