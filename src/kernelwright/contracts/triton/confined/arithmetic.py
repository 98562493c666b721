"""Operators of torch that host code may use and that compute, as kernels of our own, recorded like a candidate's.

Copies, casts, constants, sums, means and plain arithmetic with broadcasting. They cost time as any kernel does.
"""

from __future__ import annotations

import math
from typing import Any

import torch
import triton
import triton.language as tl

from .arithmetic_kernels import kw_elementwise, kw_sum
from .tensors import StandInMemory, dense

BINARY = {"add": 1, "sub": 2, "mul": 3, "div": 4, "rsub": 5, "maximum": 6, "minimum": 7}
UNARY = {"neg": 10, "exp": 11, "log": 12, "sqrt": 13, "rsqrt": 14, "reciprocal": 15, "abs": 16, "relu": 17}
COPIES = frozenset(("_to_copy", "clone", "copy_", "contiguous", "copy"))
SUMS = frozenset(("sum", "mean"))
BLOCK, OUT_BLOCK, SUM_BLOCK = 1024, 32, 64
MOST_RANK = 6
_IN_PLACE = {f"{name}_": name for name in (*BINARY, *UNARY)}
NAMES = frozenset((*BINARY, *UNARY, *COPIES, *SUMS, *_IN_PLACE))


class Arithmetic:
    """Launches the kernels above for one call."""

    def __init__(self, memory: StandInMemory) -> None:
        self._memory = memory

    def fill(self, result: torch.Tensor, value: float) -> None:
        self._elementwise(20, result, [], value)

    def do(self, name: str, args: Any, kwargs: Any, result: Any) -> bool:
        """Whether it is one of ours."""
        name = _IN_PLACE.get(name, name)
        if name in COPIES:
            return self._copied(name, args, result)
        if name in UNARY and isinstance(args[0], torch.Tensor):
            return self._elementwise(UNARY[name], result, [args[0]], None)
        if name in BINARY and len(args) > 1 and kwargs.get("alpha", 1) == 1 and not kwargs.get("rounding_mode"):
            return self._binary(BINARY[name], args, result)
        return name in SUMS and self._summed(name, args, kwargs, result)

    def _copied(self, name: str, args: Any, result: torch.Tensor) -> bool:
        source = args[1] if name in ("copy_", "copy") else args[0]
        if result.device != source.device:
            return False
        same = result.dtype == source.dtype and result.stride() == source.stride() and result.shape == source.shape
        if same and dense(source):
            self._memory.copy(result, source)
            return True
        return self._elementwise(0, result, [source], None)

    def _binary(self, operation: int, args: Any, result: torch.Tensor) -> bool:
        left, right = args[:2]
        numbers = [one for one in (left, right) if not isinstance(one, torch.Tensor)]
        if any(isinstance(one, torch.Tensor) and one.device != result.device for one in (left, right)):
            return False
        if isinstance(left, torch.Tensor) and numbers:
            return self._elementwise(operation, result, [left], numbers[0])
        return not numbers and self._elementwise(operation, result, [left, right], None)

    def _elementwise(self, operation: int, out: torch.Tensor, given: list[torch.Tensor], scalar: float | None) -> bool:
        math_type = _math(out, given, operation)
        if math_type is None or (scalar is not None and math_type == tl.float64):
            return False  # a number reaches a kernel in float32
        if not out.numel():
            return True
        wide = [one.expand(out.shape) for one in given]
        sizes, strides = _collapsed(list(out.shape), [list(one.stride()) for one in (out, *wide)])
        if len(sizes) > MOST_RANK:
            return False
        a, b = ([*strides[1:], strides[0], strides[0]])[:2]
        tensors = [*wide, out, out][:2]
        number = 0.0 if scalar is None else scalar
        if math_type == tl.int64:
            number = int(number)
        kw_elementwise[(triton.cdiv(out.numel(), BLOCK),)](
            *(out, *tensors, out.numel(), float(number) if math_type != tl.int64 else number),
            *(tuple(sizes), tuple(strides[0]), tuple(a), tuple(b), len(sizes), operation),
            *(scalar is not None and operation != 20, math_type, BLOCK),
        )
        return True

    def _summed(self, name: str, args: Any, kwargs: Any, out: torch.Tensor) -> bool:
        source = args[0]
        dims = args[1] if len(args) > 1 else kwargs.get("dim")
        dims = [dims] if isinstance(dims, int) else list(dims) if dims else list(range(source.dim()))
        dims = [d % max(1, source.dim()) for d in dims]
        math_type = _math(out, [source], 1)
        if math_type is None or (name == "mean" and math_type == tl.float64) or not source.numel():
            return False
        kept = [d for d in range(source.dim()) if d not in dims]
        squeezed = [d for d in range(out.dim()) if out.dim() != source.dim() or d in kept]
        if len(kept) > MOST_RANK or len(dims) > MOST_RANK:
            return False
        outer, outer_strides = _collapsed(
            [source.shape[d] for d in kept],
            [[out.stride(d) for d in squeezed], [source.stride(d) for d in kept]],
        )
        inner, inner_strides = _collapsed([source.shape[d] for d in dims], [[source.stride(d) for d in dims]])
        count = math.prod(source.shape[d] for d in dims)
        kw_sum[(triton.cdiv(out.numel(), OUT_BLOCK),)](
            *(out, source, out.numel(), count, 1.0 / count, tuple(outer), *map(tuple, outer_strides)),
            *(tuple(inner), tuple(inner_strides[0]), len(outer), len(inner)),
            *(math_type, name == "mean", OUT_BLOCK, SUM_BLOCK),
        )
        return True


def _math(out: torch.Tensor, given: list[torch.Tensor], operation: int) -> Any:
    """What is computed in: float32 for all but float64, and integers in int64. None for what is neither."""
    dtypes = {one.dtype for one in (out, *given)}
    if any(dtype.is_complex for dtype in dtypes):
        return None
    if operation == 0 and torch.bool in dtypes and out.dtype != torch.bool:
        return None if not given or given[0].dtype != torch.bool else tl.int64
    if torch.float64 in dtypes:
        return tl.float64
    return tl.float32 if any(dtype.is_floating_point for dtype in dtypes) else tl.int64


def _collapsed(sizes: list[int], strides: list[list[int]]) -> tuple[list[int], list[list[int]]]:
    """Innermost dimension first; neighbours that all tensors run through without a gap are one. Never of rank 0."""
    found: list[int] = []
    steps: list[list[int]] = [[] for _ in strides]
    for d in reversed(range(len(sizes))):
        if sizes[d] == 1:
            continue
        if found and all(mine[-1] * found[-1] == one[d] for mine, one in zip(steps, strides, strict=True)):
            found[-1] *= sizes[d]
            continue
        found.append(sizes[d])
        for mine, one in zip(steps, strides, strict=True):
            mine.append(one[d])
    return (found, steps) if found else ([1], [[0] for _ in strides])
