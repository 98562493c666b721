"""Lowers what sums or searches over a space that no memory holds: windows of any rank, stacks of products, scans."""

from __future__ import annotations

from math import prod
from typing import Any

from kernelwright.proposers.templates.graph import Call, Extent, Lowering, NodeRef, Permute, Shape
from kernelwright.proposers.templates.nests.index_maps import (
    Contraction,
    IndexTerm,
    Ranked,
    Recurrent,
    Scan,
    compared,
    every,
    least,
    minus,
    most,
    over,
    place,
    plus,
    size_of,
    times,
    within,
)
from kernelwright.proposers.templates.nests.lower_convolutions import convolution_gradients, convolved
from kernelwright.proposers.templates.nests.lower_pools import POOL_GRADIENTS
from kernelwright.proposers.templates.nests.lower_scatters import SCATTERS
from kernelwright.proposers.templates.nests.lower_views import axis, mapped, places, value_of


def _contracted(call: Call, operation: str, value: NodeRef, kept: int) -> NodeRef:
    """Over all dimensions behind the first `kept`."""
    shape = call.builder.shape(value)
    dims = tuple(range(kept, len(shape)))
    dtype = call.builder.dtype(value)
    return call.builder.add(Contraction(shape[:kept], dtype, (value.node,), operation, dims))


def _product_of(call: Call, left: NodeRef, right: NodeRef, kept: int) -> NodeRef:
    shape = call.builder.shape(left)
    value = call.builder.pointwise("mul", (left, right), shape, call.dtype)
    return _contracted(call, "sum", value, kept)


def stacked(call: Call) -> NodeRef:
    """bmm: the space is stack × rows × columns × depth."""
    left, right = call.args[:2]
    depth = call.builder.shape(left)[-1]
    shape = (*call.shape, depth)
    kept = len(call.shape)
    outer: list[IndexTerm] = [place(0)] if kept == 3 else []
    row, column, deep = place(kept - 2), place(kept - 1), place(kept)
    one = mapped(call, left, _single(call, left, [*outer, row, deep]), shape)
    other = mapped(call, right, _single(call, right, [*outer, deep, column]), shape)
    return _product_of(call, one, other, len(call.shape))


def _single(call: Call, source: NodeRef, at: list[IndexTerm]) -> list[IndexTerm]:
    return [0 if extent.single else one for extent, one in zip(call.builder.shape(source), at, strict=True)]


def _tuple(value: Any, rank: int) -> list[int]:
    values = list(value) if isinstance(value, list | tuple) else [value]
    if not all(isinstance(one, int) for one in values):
        raise TypeError
    return values * rank if len(values) == 1 else values


def _windows(call: Call, start: int, rank: int) -> tuple[list[int], list[int], list[int]]:
    kernel = _tuple(call.args[start], rank)
    stride = call.get(start + 1, "stride")
    return kernel, _tuple(stride, rank) if stride else kernel, _tuple(call.get(start + 2, "padding", 0), rank)


def _literal(sizes: list[int]) -> Shape:
    return tuple(Extent(size, size) for size in sizes)


def _slid(call: Call, source: NodeRef, form: Shape, window: tuple[list[int], ...], fill: float, ceil: bool) -> NodeRef:
    """The space of results × places in the window."""
    kernel, stride, padding, dilation = window
    rank, shape = len(kernel), call.builder.shape(source)
    outer = len(form) - rank
    at: list[IndexTerm] = [0 if e.single else place(d) for d, e in enumerate(form[:outer])]
    guards = []
    for n in range(rank):
        inner = 0 if kernel[n] == 1 else place(len(form) + n)
        here = minus(plus(times(place(outer + n), stride[n]), times(inner, dilation[n])), padding[n])
        at.append(here)
        if padding[n] or ceil:
            guards.append(within(here, size_of(shape[outer + n])))
    return mapped(call, source, at, (*form, *_literal(kernel)), guard=every(guards), fill=fill)


def pooled(call: Call) -> tuple[NodeRef, ...]:
    """Maximum over windows; where the maxima lie, only if it is asked for."""
    source = call.args[0]
    rank = int(call.name.removeprefix("max_pool")[0])
    kernel, stride, padding = _windows(call, 1, rank)
    dilation = _tuple(call.get(4, "dilation", 1), rank)
    ceil = bool(call.get(5, "ceil_mode", False))
    form = call.shape or _pooled_shape(call, source, (kernel, stride, padding, dilation), ceil=ceil)
    value = _slid(call, source, form, (kernel, stride, padding, dilation), float("-inf"), ceil)
    window = (kernel, stride, padding, dilation)
    return _contracted(call, "max", value, len(form)), _pooled_places(call, source, value, form, window)


def _pooled_places(call: Call, source: NodeRef, value: NodeRef, form: Shape, window: tuple[list[int], ...]) -> NodeRef:
    """The number of each maximum among the elements of its image, from where it stands in its window."""
    kernel, stride, padding, dilation = window
    shape, outer = call.builder.shape(source), len(form) - len(kernel)
    dims = tuple(range(len(form), len(form) + len(kernel)))
    left = call.builder.add(Contraction(form, "int64", (value.node,), "argmax", dims))

    def whole(operation: str, one: Any, other: Any) -> NodeRef:
        return call.builder.pointwise(operation, (one, other), form, "int64")

    steps: list[NodeRef] = []
    for n in reversed(range(len(kernel))):
        inner = whole("remainder", left, kernel[n])
        left = whole("div_floor", left, kernel[n])
        begin = value_of(call, minus(times(_place(form, outer + n), stride[n]), padding[n]), form, "int64")
        steps.insert(0, whole("add", begin, whole("mul", inner, dilation[n])))
    number = steps[0]
    for n in range(1, len(kernel)):
        number = whole("add", whole("mul", number, shape[outer + n]), steps[n])
    return number


def _pooled_shape(call: Call, source: NodeRef, window: tuple[list[int], ...], *, ceil: bool) -> Shape:
    kernel, stride, padding, dilation = window
    shape = call.builder.shape(source)
    outer = len(shape) - len(kernel)

    def length(size: int, n: int) -> int:
        reach = size + 2 * padding[n] - dilation[n] * (kernel[n] - 1) - 1
        made = (reach + (stride[n] - 1 if ceil else 0)) // stride[n] + 1
        return made - 1 if ceil and (made - 1) * stride[n] >= size + padding[n] else made

    sizes = [Extent(length(e.first, n), length(e.second, n)) for n, e in enumerate(shape[outer:])]
    return (*shape[:outer], *sizes)


def averaged(call: Call) -> NodeRef:
    source = call.args[0]
    rank = int(call.name.removeprefix("avg_pool")[0])
    kernel, stride, padding = _windows(call, 1, rank)
    ceil = bool(call.get(4, "ceil_mode", False))
    padded, divisor = call.get(5, "count_include_pad", True), call.get(6, "divisor_override")
    value = _slid(call, source, call.shape, (kernel, stride, padding, [1] * rank), 0.0, ceil)
    sums = _contracted(call, "sum", value, len(call.shape))
    if divisor or ((padded or not any(padding)) and not ceil):
        return call.pointwise("div", sums, divisor or prod(kernel))
    outer = len(call.shape) - rank
    count: IndexTerm = 1
    for n in range(rank):
        size = size_of(call.builder.shape(source)[outer + n])
        begin = minus(times(place(outer + n), stride[n]), padding[n])
        end = least(plus(begin, kernel[n]), plus(size, padding[n]))
        if not padded:
            begin, end = most(begin, 0), least(end, size)
        count = times(count, minus(end, begin))
    return call.pointwise("div", sums, value_of(call, count, call.shape, call.dtype))


def adapted(call: Call) -> Any:
    """Adaptive pooling: each result from its own stretch, found by testing all places of a dimension."""
    source = call.args[0]
    largest = "max" in call.name
    shape = call.builder.shape(source)
    rank = int(call.name.rstrip("d")[-1])
    outer = len(shape) - rank
    made = [e if isinstance(e, Extent) else Extent(e, e) for e in call.args[1]]
    form = (*shape[:outer], *made)
    space = (*form, *shape[outer:])
    at: list[IndexTerm] = [0 if e.single else place(d) for d, e in enumerate(form[:outer])]
    guards: list[IndexTerm] = []
    count: IndexTerm = 1
    for n in range(rank):
        size, results = size_of(shape[outer + n]), size_of(made[n])
        here, inner = place(outer + n), place(len(form) + n)
        begin = over(times(here, size), results)
        end = over(plus(times(plus(here, 1), size), minus(results, 1)), results)
        at.append(inner)
        guards += [compared(">=", inner, begin), compared("<", inner, end)]
        count = times(count, minus(end, begin))
    fill = float("-inf") if largest else 0.0
    value = mapped(call, source, at, space, guard=every(guards), fill=fill)
    found = _contracted(call, "max" if largest else "sum", value, len(form))
    if largest:
        return (found,)
    return call.builder.pointwise("div", (found, value_of(call, count, form, call.dtype)), form, call.dtype)


def _place(shape: Shape, dim: int) -> IndexTerm:
    return 0 if shape[dim].single else place(dim)


def _scanned(operation: str) -> Lowering:
    def lowering(call: Call) -> NodeRef:
        source: NodeRef = call.args[0]
        if not call.shape:
            return source
        if call.builder.dtype(source) != call.dtype:
            source = call.pointwise("convert", source)
        return call.builder.add(Scan(call.shape, call.dtype, (source.node,), operation, axis(call, source, 1)))

    return lowering


def _extremes(operation: str) -> Lowering:
    def lowering(call: Call) -> tuple[NodeRef, ...]:
        source = call.args[0]
        shape, dim = call.builder.shape(source), axis(call, source, 1)
        dtype = call.builder.dtype(source)
        values = call.builder.add(Scan(shape, dtype, (source.node,), operation, dim))
        return values, call.builder.add(Scan(shape, "int64", (source.node,), f"arg{operation}", dim))

    return lowering


def _ranked(call: Call) -> tuple[NodeRef, ...]:
    """sort and topk."""
    source = call.args[0]
    shape = call.builder.shape(source)
    if call.name == "topk":
        dim, descending = axis(call, source, 2, default=-1), bool(call.get(3, "largest", True))
        count = call.args[1]
        form = (*shape[:dim], count if isinstance(count, Extent) else Extent(count, count), *shape[dim + 1 :])
    else:
        stable = any(isinstance(one, bool) for one in call.args[1:2]) or "stable" in call.kwargs
        dim = axis(call, source, 2 if stable and len(call.args) > 2 else 1, default=-1)
        descending = bool(call.kwargs.get("descending", call.args[-1] if isinstance(call.args[-1], bool) else False))
        form = shape
    dtype = call.builder.dtype(source)
    values = call.builder.add(Ranked(form, dtype, (source.node,), dim, descending))
    return values, call.builder.add(Ranked(form, "int64", (source.node,), dim, descending, places=True))


def added(call: Call) -> NodeRef:
    """scatter_add and index_add: every element looks for what is meant for it, so that sums have one order."""
    base, index, source = call.args[0], call.args[2], call.args[3]
    dim = axis(call, base, 1)
    if call.kwargs.get("alpha", 1) != 1:
        raise call.refuse("with alpha")
    whole = call.name == "scatter_add"
    shape, many = call.shape, call.builder.shape(index)[dim if whole else 0]
    if whole and call.builder.shape(index) != call.builder.shape(source):
        raise call.refuse("of part of a tensor")
    space = (*shape, many)
    inner = _place(space, len(shape))
    at = places(shape)
    guards: list[IndexTerm] = []
    if whole:
        for d, (own, given) in enumerate(zip(shape, call.builder.shape(index), strict=True)):
            if d != dim and own != given:
                guards.append(compared("<", place(d), size_of(given)))
    at[dim] = inner
    found = mapped(call, index, at if whole else [inner], space, guard=every(guards), fill=-1)
    wanted = value_of(call, place(dim), space, "int64")
    here = call.builder.pointwise("eq", (found, wanted), space, "bool")
    moved = mapped(call, source, at, space, guard=every(guards))
    zero = call.builder.constant(0, call.dtype)
    value = call.builder.pointwise("where", (here, moved, zero), space, call.dtype)
    return call.pointwise("add", base, _contracted(call, "sum", value, len(shape)))


def _through_time(call: Call) -> NodeRef:
    gates, states, weight, bias, cell, back = call.args
    rows, columns = call.builder.shape(weight)
    turned = call.builder.add(Permute((columns, rows), call.builder.dtype(weight), (weight.node,), (1, 0)))
    inputs = [gates, *states, turned, *([bias] if bias is not None else [])]
    return call.builder.add(Recurrent(call.shape, call.dtype, tuple(one.node for one in inputs), cell, bool(back)))


NESTS: dict[str, Lowering] = {
    "recurrent": _through_time,
    "bmm": stacked,
    "mm": stacked,
    **{f"max_pool{rank}d_with_indices": pooled for rank in (1, 2, 3)},
    **{f"avg_pool{rank}d": averaged for rank in (1, 2, 3)},
    **{f"{head}adaptive_avg_pool{rank}d": adapted for head in ("", "_") for rank in (1, 2, 3)},
    **{f"adaptive_max_pool{rank}d": adapted for rank in (1, 2, 3)},
    "convolution": convolved,
    "convolution_backward": convolution_gradients,  # type: ignore[dict-item]
    "cumsum": _scanned("sum"),
    "cumprod": _scanned("prod"),
    "logcumsumexp": _scanned("logsumexp"),
    "cummax": _extremes("max"),
    "cummin": _extremes("min"),
    **dict.fromkeys(("topk", "sort"), _ranked),
    **dict.fromkeys(("scatter_add", "index_add"), added),
    **SCATTERS,
    **POOL_GRADIENTS,
}
