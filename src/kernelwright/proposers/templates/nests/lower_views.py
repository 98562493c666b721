"""Lowers views and lookups to index maps: slices, joins, padding, gathers and whatever else only moves elements."""

from __future__ import annotations

from typing import Any

from kernelwright.proposers.templates.graph import Call, Extent, Lowering, NodeRef, Shape
from kernelwright.proposers.templates.nests.index_maps import (
    Index,
    IndexMap,
    IndexTerm,
    IndexValue,
    Join,
    compared,
    every,
    minus,
    over,
    place,
    plus,
    rest,
    size_of,
    times,
    within,
)

LARGEST = 1 << 62  # what torch writes for "to the end" is larger


def term(value: Any) -> IndexTerm:
    assert isinstance(value, int | Extent | Index), value
    return size_of(value) if isinstance(value, Extent) else value


def mapped(call: Call, source: NodeRef, at: list[IndexTerm], shape: Shape, **how: Any) -> NodeRef:
    more = how.pop("more", ())
    inputs = (source.node, *(one.node for one in more))
    return call.builder.add(IndexMap(shape, call.builder.dtype(source), inputs, at=tuple(at), **how))


def axis(call: Call, source: NodeRef, number: int, name: str = "dim", default: int = 0) -> int:
    given = call.get(number, name, default)
    return int(given) % max(1, len(call.builder.shape(source)))


def places(shape: Shape) -> list[IndexTerm]:
    return [0 if extent.single else place(dim) for dim, extent in enumerate(shape)]


def sliced(call: Call, source: NodeRef, dim: int, start: Any, shape: Shape, step: int = 1) -> NodeRef:
    """`start` counts from the front."""
    at = places(shape)
    at[dim] = plus(times(at[dim], step), term(start))
    return mapped(call, source, at, shape)


def _start(value: Any, size: Extent) -> IndexTerm:
    """Counted from the front, and within the dimension."""
    if value is None:
        return 0
    if isinstance(value, Index):
        return value
    if isinstance(value, Extent):
        return plus(term(size), term(value)) if value.first < 0 else term(value)
    return plus(term(size), value) if value < 0 else value


def _slice(call: Call) -> NodeRef:
    source: NodeRef = call.args[0]
    dim = axis(call, source, 1)
    size = call.builder.shape(source)[dim]
    start, step = call.get(2, "start"), call.get(4, "step", 1)
    if call.builder.shape(source) == call.shape and (step == 1):
        return source
    return sliced(call, source, dim, _start(start, size), call.shape, step)


def _select(call: Call) -> NodeRef:
    source, which = call.args[0], call.args[2]
    shape = call.builder.shape(source)
    dim = axis(call, source, 1)
    at = places(call.shape)
    at.insert(dim, _start(which, shape[dim]))
    return mapped(call, source, at, call.shape)


def _parts(call: Call) -> tuple[NodeRef, ...]:
    """split_with_sizes, and split or chunk by one size."""
    source, sizes = call.args[0], call.args[1]
    shape = call.builder.shape(source)
    dim = axis(call, source, 2)
    made = []
    if not isinstance(sizes, list):
        count = -(-shape[dim].first // _extent(sizes).first)
        whole = _extent(sizes)
        before = Extent(whole.first * (count - 1), whole.second * (count - 1))
        last = Extent(shape[dim].first - before.first, shape[dim].second - before.second)
        sizes = [whole] * (count - 1) + [last]
    begin: IndexTerm = 0
    for size in map(_extent, sizes):
        form = (*shape[:dim], size, *shape[dim + 1 :])
        made.append(sliced(call, source, dim, begin, form))
        begin = plus(begin, size_of(size))
    return tuple(made)


def _extent(value: Any) -> Extent:
    return value if isinstance(value, Extent) else Extent(value, value)


def _unbound(call: Call) -> tuple[NodeRef, ...]:
    source = call.args[0]
    shape = call.builder.shape(source)
    dim = axis(call, source, 1)
    count = shape[dim].literal
    if count is None:
        raise call.refuse("along a dimension that varies")
    form = (*shape[:dim], *shape[dim + 1 :])
    made = []
    for number in range(count):
        at = places(form)
        at.insert(dim, number)
        made.append(mapped(call, source, at, form))
    return tuple(made)


def _cat(call: Call) -> NodeRef:
    parts: list[NodeRef] = [part for part in call.args[0] if call.builder.shape(part) != (Extent(0, 0),)]
    if len(parts) == 1:
        return parts[0]
    parts = [_as(call, part) for part in parts]
    dim = axis(call, parts[0], 1)
    return call.builder.add(Join(call.shape, call.dtype, tuple(part.node for part in parts), dim))


def _as(call: Call, part: NodeRef) -> NodeRef:
    if call.builder.dtype(part) == call.dtype:
        return part
    return call.builder.pointwise("convert", (part,), call.builder.shape(part), call.dtype)


def _padded(call: Call) -> NodeRef:
    source: NodeRef = call.args[0]
    amounts = call.args[1]
    fill = call.get(2, "value", 0)
    shape = call.builder.shape(source)
    at, guards = places(call.shape), []
    for number in range(len(amounts) // 2):
        dim = len(shape) - 1 - number
        low, high = amounts[2 * number : 2 * number + 2]
        if low == 0 and high == 0:
            continue
        at[dim] = minus(place(dim), term(low))
        guards.append(within(at[dim], size_of(shape[dim])))
    if not guards:
        return source
    return mapped(call, source, at, call.shape, guard=every(guards), fill=0 if fill is None else fill)


def _flipped(call: Call) -> NodeRef:
    source = call.args[0]
    shape = call.builder.shape(source)
    at = places(shape)
    for dim in call.args[1]:
        dim %= len(shape)
        if not shape[dim].single:
            at[dim] = minus(minus(size_of(shape[dim]), 1), place(dim))
    return mapped(call, source, at, shape)


def _rolled(call: Call) -> NodeRef:
    source, shifts = call.args[0], call.args[1]
    dims = call.get(2, "dims", [])
    shape = call.builder.shape(source)
    if not dims:
        raise call.refuse("over all elements")
    at = places(shape)
    for shift, dim in zip(shifts, dims, strict=True):
        size = size_of(shape[dim % len(shape)])
        away = rest(term(shift), size) if not isinstance(shift, int) or shift > 0 else minus(0, rest(-shift, size))
        at[dim % len(shape)] = rest(plus(minus(place(dim % len(shape)), away), size), size)
    return mapped(call, source, at, shape)


def _diagonal(call: Call) -> NodeRef:
    source = call.args[0]
    rank = len(call.builder.shape(source))
    offset, one, other = call.get(1, "offset", 0), call.get(2, "dim1", 0) % rank, call.get(3, "dim2", 1) % rank
    outer = places(call.shape)
    along = outer.pop()
    at: list[IndexTerm] = []
    for dim in range(rank):
        if dim == one:
            at.append(plus(along, max(0, -offset)))
        elif dim == other:
            at.append(plus(along, max(0, offset)))
        else:
            at.append(outer.pop(0))
    return mapped(call, source, at, call.shape)


def _unfolded(call: Call) -> NodeRef:
    """Windows along one dimension, as a new last one."""
    source = call.args[0]
    dim, step = axis(call, source, 1, "dimension"), call.args[3]
    at = places(call.shape)
    last = at.pop()
    at[dim] = plus(times(at[dim], step), last)
    return mapped(call, source, at, call.shape)


def _strided(call: Call) -> NodeRef:
    """Of a tensor without gaps: elements by their number in memory."""
    source, strides = call.args[0], call.args[2]
    linear: IndexTerm = term(call.get(3, "storage_offset", 0) or 0)
    for at, stride in zip(places(call.shape), strides, strict=True):
        linear = plus(linear, times(at, term(stride)))
    found: list[IndexTerm] = []
    for extent in reversed(call.builder.shape(source)):
        found.insert(0, rest(linear, size_of(extent)))
        linear = over(linear, size_of(extent))
    return mapped(call, source, found, call.shape)


def looked_up(index: int, at: list[IndexTerm], size: Extent) -> Index:
    """Input number `index` at `at`, counted from the end where it is negative."""
    return Index("value", (index, tuple(at), size_of(size)))


def aligned(call: Call, source: NodeRef, at: list[IndexTerm]) -> list[IndexTerm]:
    """The index of an operand that broadcasts to what `at` counts through."""
    shape = call.builder.shape(source)
    tail = at[len(at) - len(shape) :]
    return [0 if extent.single else term for extent, term in zip(shape, tail, strict=True)]


def _indexed(call: Call) -> NodeRef:
    """x[i, :, j]: index tensors broadcast against each other; their dimensions come first if they are apart."""
    source, indices = call.args[:2]
    shape = call.builder.shape(source)
    given = [(dim, one) for dim, one in enumerate(indices) if one is not None]
    if any(call.builder.dtype(one) == "bool" for _, one in given):
        raise call.refuse("by a mask, which gives a size that depends on values")
    rank = max(len(call.builder.shape(one)) for _, one in given)
    dims = [dim for dim, _ in given]
    together = dims == list(range(dims[0], dims[-1] + 1))
    start = dims[0] if together else 0
    out = places(call.shape)
    inner, outer = out[start : start + rank], out[:start] + out[start + rank :]
    at: list[IndexTerm] = []
    for dim in range(len(shape)):
        found = next((k for k, (d, _) in enumerate(given) if d == dim), None)
        if found is None:
            at.append(outer.pop(0))
        else:
            at.append(looked_up(found + 1, aligned(call, given[found][1], inner), shape[dim]))
    return mapped(call, source, at, call.shape, more=[one for _, one in given])


def _chosen(call: Call) -> NodeRef:
    """index_select and embedding."""
    if call.name == "embedding":
        source, index, dim = call.args[0], call.args[1], 0
    else:
        source, index = call.args[0], call.args[2]
        dim = axis(call, source, 1)
    rank = len(call.builder.shape(index))
    at = places(call.shape)
    found = looked_up(1, aligned(call, index, at[dim : dim + rank]), call.builder.shape(source)[dim])
    return mapped(call, source, [*at[:dim], found, *at[dim + rank :]], call.shape, more=[index])


def gathered(call: Call) -> NodeRef:
    source, index = call.args[0], call.args[2]
    dim = axis(call, source, 1)
    at = places(call.shape)
    at[dim] = looked_up(1, places(call.shape), call.builder.shape(source)[dim])
    return mapped(call, source, at, call.shape, more=[index])


def value_of(call: Call, index: IndexTerm, shape: Shape, dtype: str) -> NodeRef:
    found = call.builder.add(IndexValue(shape, "bool" if dtype == "bool" else "int64", index=index))
    if call.builder.dtype(found) == dtype:
        return found
    return call.builder.pointwise("convert", (found,), shape, dtype)


def _counted(call: Call) -> NodeRef:
    """arange."""
    if call.name == "iota":
        start, step = call.kwargs.get("start", 0), call.kwargs.get("step", 1)
    else:
        ends = call.args
        start, step = (0 if len(ends) == 1 else ends[0]), (ends[2] if len(ends) > 2 else call.kwargs.get("step", 1))
    if all(isinstance(one, int | Extent) for one in (start, step)):
        along = places(call.shape)[0] if call.shape else 0
        return value_of(call, plus(times(along, term(step)), term(start)), call.shape, call.dtype)
    position = value_of(call, place(0), call.shape, call.dtype)
    return call.pointwise("add", call.pointwise("mul", position, step), start)


def put(call: Call, base: NodeRef, source: NodeRef, at: list[IndexTerm], guard: IndexTerm | None) -> NodeRef:
    """`source` at `at` where `guard` holds, elsewhere the base."""
    if guard is None:
        return mapped(call, source, at, call.shape)
    inside = value_of(call, guard, call.shape, "bool")
    moved = mapped(call, source, at, call.shape, guard=guard)
    return call.pointwise("where", inside, moved, base)


def _slice_put(call: Call) -> NodeRef:
    base, source = call.args[:2]
    dim = axis(call, base, 2)
    size = call.builder.shape(base)[dim]
    start, step = _start(call.get(3, "start"), size), call.get(5, "step", 1)
    at = places(call.shape)
    away = minus(place(dim), start)
    at[dim] = over(away, step)
    inner = size_of(call.builder.shape(source)[dim])
    conditions: list[IndexTerm] = [compared(">=", away, 0), compared("<", at[dim], inner)]
    if step != 1:
        conditions.insert(1, compared("==", rest(away, step), 0))
    return put(call, base, source, at, every(conditions))


def _select_put(call: Call) -> NodeRef:
    base, source = call.args[:2]
    dim = axis(call, base, 2)
    which = _start(call.args[3], call.builder.shape(base)[dim])
    at = places(call.shape)
    here = compared("==", place(dim), which)
    del at[dim]
    return put(call, base, source, at, here)


def _repeated(call: Call) -> NodeRef:
    source = call.args[0]
    shape = call.builder.shape(source)
    at = places(call.shape)[len(call.shape) - len(shape) :]
    return mapped(call, source, [rest(a, size_of(e)) for a, e in zip(at, shape, strict=True)], call.shape)


def _triangle(call: Call) -> NodeRef:
    source, away = call.args[0], call.get(1, "diagonal", 0)
    rank = len(call.shape)
    row, column = plus(place(rank - 2), term(away)), place(rank - 1)
    kept = compared("<=" if call.name == "tril" else ">=", column, row)
    return mapped(call, source, places(call.shape), call.shape, guard=kept)


VIEWS: dict[str, Lowering] = {
    "slice": _slice,
    "select": _select,
    **dict.fromkeys(("split_with_sizes", "split", "split_with_sizes_copy"), _parts),
    "unbind": _unbound,
    "cat": _cat,
    "constant_pad_nd": _padded,
    "flip": _flipped,
    "roll": _rolled,
    "diagonal": _diagonal,
    "unfold": _unfolded,
    "as_strided": _strided,
    **dict.fromkeys(("index", "_unsafe_index"), _indexed),
    **dict.fromkeys(("index_select", "embedding"), _chosen),
    "gather": gathered,
    **dict.fromkeys(("arange", "iota"), _counted),
    "slice_scatter": _slice_put,
    "select_scatter": _select_put,
    "repeat": _repeated,
    **dict.fromkeys(("tril", "triu"), _triangle),
}
