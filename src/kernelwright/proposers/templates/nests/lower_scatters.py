"""Lowers what puts elements at given places: index_put, scatter in all its forms, bags of embeddings.

Every result looks for what is meant for it, so that sums have one order and of several elements the last one stays.
"""

from __future__ import annotations

from collections.abc import Sequence

from kernelwright.proposers.templates.graph import ONE, Call, Extent, Lowering, NodeRef, Shape, ViewNode, total
from kernelwright.proposers.templates.nests.index_maps import (
    Contraction,
    Index,
    IndexTerm,
    IndexValue,
    compared,
    every,
    least,
    minus,
    over,
    place,
    plus,
    rest,
    size_of,
    times,
)
from kernelwright.proposers.templates.nests.lower_views import aligned, axis, looked_up, mapped, places, value_of

JOINS = {"sum": "sum", "mean": "sum", "prod": "prod", "amax": "max", "amin": "min"}
NEUTRAL = {"sum": 0.0, "prod": 1.0, "max": float("-inf"), "min": float("inf")}


def _over(call: Call, value: NodeRef, kept: int, operation: str) -> NodeRef:
    """A reduction over all dimensions behind the first `kept`."""
    shape = call.builder.shape(value)
    dims = tuple(range(kept, len(shape)))
    return call.builder.add(Contraction(shape[:kept], call.builder.dtype(value), (value.node,), operation, dims))


def _hits(call: Call, space: Shape, indices: Sequence[NodeRef], condition: IndexTerm) -> NodeRef:
    """Truth values over the space; lookups in `condition` count from input 0."""
    return call.builder.add(IndexValue(space, "bool", tuple(one.node for one in indices), index=condition))


def _shifted(condition: IndexTerm) -> IndexTerm:
    """The same with lookups for a node whose inputs are the indices alone."""
    if not isinstance(condition, Index):
        return condition
    if condition.operator == "value":
        which, where, size = condition.operands
        return Index("value", (which - 1, where, size))
    return Index(condition.operator, tuple(_shifted(operand) for operand in condition.operands))


def _last_put(
    call: Call, base: NodeRef, space: Shape, indices: Sequence[NodeRef], condition: IndexTerm, moved: NodeRef | None
) -> NodeRef:
    """Where several meet, the last in order stays; `moved` has their values over the space."""
    kept = len(call.shape)
    number: IndexTerm = 0
    for dim in range(kept, len(space)):
        number = plus(times(number, size_of(space[dim])), 0 if space[dim].single else place(dim))
    here = _hits(call, space, indices, _shifted(condition))
    counted = value_of(call, number, space, "int64")
    none = call.builder.constant(-1, "int64")
    found = _over(call, call.builder.pointwise("where", (here, counted, none), space, "int64"), kept, "max")
    away = call.builder.pointwise("lt", (found, call.builder.constant(0, "int64")), call.shape, "bool")
    assert moved is not None
    at: list[IndexTerm] = places(call.shape)
    left: IndexTerm = looked_up(1, places(call.shape), total(space[kept:]))
    inner: list[IndexTerm] = []
    for dim in reversed(range(kept, len(space))):
        size = size_of(space[dim])
        inner.insert(0, rest(left, size) if dim > kept else left)
        left = over(left, size)
    chosen = mapped(call, moved, [*at, *inner], call.shape, more=[found])
    return call.pointwise("where", away, base, chosen)


def _index_put(call: Call) -> NodeRef:
    base, given, values = call.args[:3]
    accumulate = bool(call.get(3, "accumulate", False))
    indices = [(dim, one) for dim, one in enumerate(given) if one is not None]
    shape = call.shape
    if any(call.builder.dtype(one) == "bool" for _, one in indices):
        return _mask_put(call, base, indices, values, accumulate=accumulate)
    dims = [dim for dim, _ in indices]
    if dims != list(range(dims[0], dims[-1] + 1)):
        raise call.refuse("at indices of dimensions that are apart")
    rank = max(len(call.builder.shape(one)) for _, one in indices)
    widest = next(call.builder.shape(one) for _, one in indices if len(call.builder.shape(one)) == rank)
    meet = [next((e for e in column if not e.single), column[0]) for column in _columns(call, indices, rank, widest)]
    space = (*shape, *meet)
    inner: list[IndexTerm] = [0 if e.single else place(len(shape) + n) for n, e in enumerate(meet)]
    own = places(shape)
    conditions: list[IndexTerm] = []
    for number, (dim, one) in enumerate(indices):
        found = looked_up(number + 1, aligned(call, one, inner), shape[dim])
        conditions.append(compared("==", found, own[dim]))
    condition = every(conditions)
    assert condition is not None
    lie = [*own[: dims[0]], *inner, *own[dims[-1] + 1 :]]
    tensors = [one for _, one in indices]
    if not accumulate:
        moved = mapped(call, values, aligned(call, values, lie), space)
        return _last_put(call, base, space, tensors, condition, moved)
    moved = mapped(call, values, aligned(call, values, lie), space, guard=condition, more=tensors)
    return call.pointwise("add", base, _over(call, moved, len(shape), "sum"))


def _columns(call: Call, indices: Sequence[tuple[int, NodeRef]], rank: int, widest: Shape) -> list[list[Extent]]:
    columns: list[list[Extent]] = [[extent] for extent in widest]
    for _, one in indices:
        shape = call.builder.shape(one)
        for n, extent in enumerate(shape):
            columns[rank - len(shape) + n].append(extent)
    return columns


def _mask_put(
    call: Call, base: NodeRef, indices: Sequence[tuple[int, NodeRef]], values: NodeRef, *, accumulate: bool
) -> NodeRef:
    """One value wherever a mask holds; what a mask picks out one by one has a size that depends on values."""
    if len(indices) != 1 or accumulate or not total(call.builder.shape(values)).single:
        raise call.refuse("by a mask, which gives a size that depends on values")
    dim, mask = indices[0]
    form = call.builder.shape(mask)
    behind = len(call.shape) - dim - len(form)
    lifted = call.builder.add(ViewNode((*form, *([ONE] * behind)), "bool", (mask.node,)))
    value = call.builder.add(ViewNode((), call.builder.dtype(values), (values.node,)))
    return call.pointwise("where", lifted, value, base)


def _along(call: Call, base: NodeRef, index: NodeRef) -> tuple[Shape, list[IndexTerm], IndexTerm, list[IndexTerm]]:
    """Space, place in the index, whether it says this element, and guards for what the index leaves out."""
    dim = axis(call, base, 1)
    form = call.builder.shape(index)
    space = (*call.shape, form[dim])
    at = places(call.shape)
    own = at[dim]
    at[dim] = 0 if form[dim].single else place(len(call.shape))
    guards: list[IndexTerm] = [
        compared("<", place(d), size_of(given))
        for d, (whole, given) in enumerate(zip(call.shape, form, strict=True))
        if d != dim and whole != given
    ]
    at = [0 if e.single and d != dim else one for d, (e, one) in enumerate(zip(form, at, strict=True))]
    return space, at, compared("==", looked_up(1, at, call.shape[dim]), own), guards


def _scattered(call: Call) -> NodeRef:
    """scatter of a tensor or of a number."""
    base, index, value = call.args[0], call.args[2], call.args[3]
    if call.kwargs.get("reduce"):
        raise call.refuse("with reduce")
    space, at, here, guards = _along(call, base, index)
    condition = every([*guards, here])
    assert condition is not None
    if isinstance(value, NodeRef):
        moved = mapped(call, value, at, space)
        return _last_put(call, base, space, [index], condition, moved)
    hits = _over(call, _hits(call, space, [index], _shifted(condition)), len(call.shape), "any")
    return call.pointwise("where", hits, call.builder.constant(value, call.dtype), base)


def _scatter_reduce(call: Call) -> NodeRef:
    base, index, source, kind = call.args[0], call.args[2], call.args[3], call.args[4]
    included = bool(call.get(5, "include_self", True))
    join = JOINS[kind]
    space, at, here, guards = _along(call, base, index)
    condition = every([*guards, here])
    moved = mapped(call, source, at, space, guard=condition, fill=NEUTRAL[join], more=[index])
    found = _over(call, moved, len(call.shape), join)
    ones = call.builder.constant(1, call.dtype)
    zero = call.builder.constant(0, call.dtype)
    hits = _hits(call, space, [index], _shifted(condition) if condition is not None else 1)
    count = _over(call, call.builder.pointwise("where", (hits, ones, zero), space, call.dtype), len(call.shape), "sum")
    if included:
        operation = {"sum": "add", "prod": "mul", "max": "maximum", "min": "minimum"}[join]
        found = call.pointwise(operation, base, found)
        count = call.pointwise("add", count, ones) if kind == "mean" else count
    if kind == "mean":
        found = call.pointwise("div", found, call.pointwise("maximum", count, ones))
    if included:
        return found
    untouched = call.builder.pointwise("eq", (count, zero), call.shape, "bool")
    return call.pointwise("where", untouched, base, found)


def _bag(call: Call) -> tuple[NodeRef, ...]:
    """Sum, mean or maximum of the rows that each bag asks for."""
    table, index, offsets = call.args[:3]
    mode, weights, last = call.get(4, "mode", 0), call.get(6, "per_sample_weights"), call.get(7, "include_last_offset")
    if last or call.get(8, "padding_idx", -1) not in (-1, None):
        raise call.refuse("with a last offset or a padding index")
    bags, (count,) = call.builder.shape(offsets)[0], call.builder.shape(index)
    width = call.builder.shape(table)[1]
    form = (bags, width)
    space = (*form, count)
    bag, inner = place(0), 0 if count.single else place(2)
    begin = looked_up(2, [0 if bags.single else bag], count)
    after = least(plus(bag, 1), minus(size_of(bags), 1))
    end = looked_up(2, [0 if bags.single else after], count)
    inside = every(
        [
            compared(">=", inner, begin),
            Index("||", (compared("==", plus(bag, 1), size_of(bags)), compared("<", inner, end))),
        ]
    )
    row = looked_up(1, [inner], call.builder.shape(table)[0])
    fill = float("-inf") if mode == 2 else 0.0
    value = mapped(
        call, table, [row, 0 if width.single else place(1)], space, guard=inside, fill=fill, more=[index, offsets]
    )
    dtype = call.builder.dtype(table)
    if weights is not None:
        share = mapped(call, weights, [inner], space)
        value = call.builder.pointwise("mul", (value, share), space, dtype)
    found = _over(call, value, 2, "max" if mode == 2 else "sum")
    assert inside is not None
    hits = _hits(call, space, [index, offsets], _shifted(inside))
    one, zero = call.builder.constant(1, dtype), call.builder.constant(0, dtype)
    many = _over(call, call.builder.pointwise("where", (hits, one, zero), space, dtype), 2, "sum")
    if mode == 1:
        found = call.builder.pointwise(
            "div", (found, call.builder.pointwise("maximum", (many, one), form, dtype)), form, dtype
        )
    if mode == 2:
        empty = call.builder.pointwise("eq", (many, zero), form, "bool")
        found = call.builder.pointwise("where", (empty, zero, found), form, dtype)
    return (found,)


SCATTERS: dict[str, Lowering] = {
    **dict.fromkeys(("index_put", "_unsafe_index_put"), _index_put),
    "scatter": _scattered,
    "scatter_reduce": _scatter_reduce,
    **dict.fromkeys(("_embedding_bag_forward_only", "_embedding_bag"), _bag),
}
