"""Lowers the gradients of pooling: every element of the input sums over the windows that it lies in."""

from __future__ import annotations

from typing import Any

from kernelwright.proposers.templates.graph import Call, Extent, Lowering, NodeRef, Shape
from kernelwright.proposers.templates.nests.index_maps import (
    Contraction,
    IndexTerm,
    compared,
    every,
    least,
    minus,
    most,
    over,
    place,
    plus,
    rest,
    size_of,
    times,
)
from kernelwright.proposers.templates.nests.lower_views import mapped, value_of


def _numbers(value: Any, rank: int) -> list[int]:
    values = list(value) if isinstance(value, list | tuple) else [value]
    return values * rank if len(values) == 1 else values


def window_counts(
    shape: Shape, form: Shape, kernel: list[int], stride: list[int], padding: list[int], *, padded: bool
) -> IndexTerm:
    """How many elements a window of average pooling counts, as torch does at the borders."""
    outer = len(form) - len(kernel)
    count: IndexTerm = 1
    for n in range(len(kernel)):
        size = size_of(shape[outer + n])
        begin = minus(times(0 if form[outer + n].single else place(outer + n), stride[n]), padding[n])
        end = least(plus(begin, kernel[n]), plus(size, padding[n]))
        if not padded:
            begin, end = most(begin, 0), least(end, size)
        count = times(count, minus(end, begin))
    return count


def _windows_over(
    call: Call, shape: Shape, form: Shape, window: tuple[list[int], ...]
) -> tuple[Shape, list[IndexTerm], IndexTerm | None]:
    """The space of input × places in a window, where in the results that is, and whether there is such a window."""
    kernel, stride, padding, dilation = window
    rank = len(kernel)
    outer = len(shape) - rank
    space = (*shape, *(Extent(size, size) for size in kernel))
    at: list[IndexTerm] = [0 if e.single else place(d) for d, e in enumerate(shape[:outer])]
    guards: list[IndexTerm] = []
    for n in range(rank):
        here = 0 if shape[outer + n].single else place(outer + n)
        inner = 0 if kernel[n] == 1 else place(len(shape) + n)
        away = minus(plus(here, padding[n]), times(inner, dilation[n]))
        at.append(over(away, stride[n]))
        guards.append(compared(">=", away, 0))
        guards += [compared("==", rest(away, stride[n]), 0)] if stride[n] != 1 else []
        guards.append(compared("<", at[-1], size_of(form[outer + n])))
    return space, at, every(guards)


def _summed(call: Call, value: NodeRef, kept: int) -> NodeRef:
    shape = call.builder.shape(value)
    dims = tuple(range(kept, len(shape)))
    return call.builder.add(Contraction(shape[:kept], call.builder.dtype(value), (value.node,), "sum", dims))


def _average(call: Call) -> NodeRef:
    gradient, source = call.args[:2]
    rank = int(call.name.removeprefix("avg_pool")[0])
    kernel = _numbers(call.args[2], rank)
    stride = _numbers(call.args[3], rank) if call.args[3] else kernel
    padding = _numbers(call.args[4], rank)
    ceil, padded, divisor = bool(call.args[5]), bool(call.args[6]), call.get(7, "divisor_override")
    shape, form = call.builder.shape(source), call.builder.shape(gradient)
    dtype = call.builder.dtype(gradient)
    if divisor or ((padded or not any(padding)) and not ceil):
        whole = 1
        for size in kernel:
            whole *= size
        scaled = call.builder.pointwise("div", (gradient, divisor or whole), form, dtype)
    else:
        count = window_counts(shape, form, kernel, stride, padding, padded=padded)
        scaled = call.builder.pointwise("div", (gradient, value_of(call, count, form, dtype)), form, dtype)
    space, at, guard = _windows_over(call, shape, form, (kernel, stride, padding, [1] * rank))
    return _summed(call, mapped(call, scaled, at, space, guard=guard), len(shape))


def _maximum(call: Call) -> NodeRef:
    gradient, source = call.args[:2]
    rank = int(call.name.removeprefix("max_pool")[0])
    kernel = _numbers(call.args[2], rank)
    stride = _numbers(call.args[3], rank) if call.args[3] else kernel
    padding, dilation, indices = _numbers(call.args[4], rank), _numbers(call.args[5], rank), call.args[7]
    shape, form = call.builder.shape(source), call.builder.shape(gradient)
    space, at, guard = _windows_over(call, shape, form, (kernel, stride, padding, dilation))
    number: IndexTerm = 0
    for dim in range(len(shape) - rank, len(shape)):
        number = plus(times(number, size_of(shape[dim])), 0 if shape[dim].single else place(dim))
    chosen = mapped(call, indices, at, space, guard=guard, fill=-1)
    here = call.builder.pointwise("eq", (chosen, value_of(call, number, space, "int64")), space, "bool")
    moved = mapped(call, gradient, at, space, guard=guard)
    zero = call.builder.constant(0, call.builder.dtype(gradient))
    value = call.builder.pointwise("where", (here, moved, zero), space, call.builder.dtype(gradient))
    return _summed(call, value, len(shape))


def _adaptive(call: Call) -> NodeRef:
    """Every element tests all results of a dimension for whether their stretch holds it."""
    gradient, source = call.args[:2]
    shape, form = call.builder.shape(source), call.builder.shape(gradient)
    rank = int(call.name.partition("pool")[2][0])
    outer = len(shape) - rank
    space = (*shape, *form[outer:])
    dtype = call.builder.dtype(gradient)
    at: list[IndexTerm] = [0 if e.single else place(d) for d, e in enumerate(shape[:outer])]
    guards: list[IndexTerm] = []
    count: IndexTerm = 1
    for n in range(rank):
        size, results = size_of(shape[outer + n]), size_of(form[outer + n])
        one: IndexTerm = 0 if form[outer + n].single else place(outer + n)
        inner: IndexTerm = 0 if form[outer + n].single else place(len(shape) + n)
        count = times(count, minus(_end(one, size, results), _begin(one, size, results)))
        here: IndexTerm = 0 if shape[outer + n].single else place(outer + n)
        guards += [compared(">=", here, _begin(inner, size, results)), compared("<", here, _end(inner, size, results))]
        at.append(inner)
    scaled = call.builder.pointwise("div", (gradient, value_of(call, count, form, dtype)), form, dtype)
    return _summed(call, mapped(call, scaled, at, space, guard=every(guards)), len(shape))


def _begin(at: IndexTerm, size: IndexTerm, results: IndexTerm) -> IndexTerm:
    return over(times(at, size), results)


def _end(at: IndexTerm, size: IndexTerm, results: IndexTerm) -> IndexTerm:
    return over(plus(times(plus(at, 1), size), minus(results, 1)), results)


POOL_GRADIENTS: dict[str, Lowering] = {
    **{f"avg_pool{rank}d_backward": _average for rank in (2, 3)},
    **{f"max_pool{rank}d_with_indices_backward": _maximum for rank in (2, 3)},
    **{f"{head}adaptive_avg_pool{rank}d_backward": _adaptive for head in ("", "_") for rank in (2, 3)},
}
