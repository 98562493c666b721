"""From operations of torch to nodes of the graph, one small function for each kind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kernelwright.proposers.templates import lower_windows
from kernelwright.proposers.templates.graph import (
    Broadcast,
    Call,
    CannotExpressError,
    Constant,
    Extent,
    Formula,
    Gather,
    GraphBuilder,
    Lowered,
    Lowering,
    Matmul,
    NodeRef,
    Number,
    Permute,
    Position,
    Scatter,
    Shape,
    ViewNode,
    reduced,
    total,
)
from kernelwright.proposers.templates.lower_scaled import is_widened, without_scales
from kernelwright.proposers.templates.nests.lower_nests import NESTS, stacked
from kernelwright.proposers.templates.nests.lower_views import VIEWS

_SAME = frozenset(
    (
        *("mul", "div", "neg", "exp", "log", "sqrt", "rsqrt", "abs", "relu", "sigmoid", "tanh", "erf", "reciprocal"),
        *("maximum", "minimum", "eq", "ne", "lt", "le", "gt", "ge", "logical_and", "logical_or", "logical_not"),
        *("sign", "sgn", "log1p", "expm1", "sin", "cos", "floor", "bitwise_and", "bitwise_or", "bitwise_not"),
        *("ceil", "trunc", "round", "tan", "asin", "acos", "atan", "sinh", "cosh", "asinh", "acosh", "atanh", "atan2"),
        *("exp2", "log2", "log10", "erfc", "isnan", "isinf", "logical_xor", "remainder", "fmod", "hypot", "copysign"),
        *("bitwise_xor", "bitwise_left_shift", "bitwise_right_shift", "fmax", "fmin"),
    )
)
_RENAMED = {"sgn": "sign", "bitwise_and": "logical_and", "bitwise_or": "logical_or", "bitwise_not": "logical_not"}


def lower(
    builder: GraphBuilder, target: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], shape: Shape, dtype: str
) -> Lowered:
    packet = getattr(target, "overloadpacket", target)
    name = str(getattr(packet, "__name__", packet))
    call = Call(builder, name, args, kwargs, shape, dtype)
    if name in _SAME:
        if name == "div" and kwargs.get("rounding_mode"):
            return call.pointwise(f"div_{kwargs['rounding_mode']}", *args)
        bits = name.startswith("bitwise") and dtype != "bool"
        return call.pointwise(name if bits else _RENAMED.get(name, name), *args)
    ways = [table[name] for table in (LOWERINGS, VIEWS, NESTS) if name in table]
    if not ways:
        raise call.refuse()
    return first_of(ways, call)


def first_of(ways: Sequence[Lowering], call: Call) -> Lowered:
    """What the first of several ways makes that can."""
    for way in ways[:-1]:
        count = len(call.builder.nodes)
        try:
            return way(call)
        except CannotExpressError:
            call.builder.forget(count)
    return ways[-1](call)


def operations() -> frozenset[str]:
    """What needs no decomposition."""
    return frozenset((*_SAME, *LOWERINGS, *VIEWS, *NESTS))


def whole_nests() -> frozenset[str]:
    """What torch would take apart further than a loop nest needs."""
    return frozenset(name for name in (*VIEWS, *NESTS) if name not in LOWERINGS)


def _same_value(call: Call) -> NodeRef:
    place = call.args[0]
    assert isinstance(place, NodeRef)
    return place


def _sum_of(call: Call) -> NodeRef:
    """a + alpha b, or a - alpha b."""
    alpha = call.kwargs.get("alpha", 1)
    second = call.args[1] if alpha == 1 else call.pointwise("mul", call.args[1], alpha)
    return call.pointwise(call.name, call.args[0], second)


def _power(call: Call) -> NodeRef:
    base, exponent = call.args
    if not isinstance(base, NodeRef) or isinstance(exponent, NodeRef):
        return call.pointwise("pow", base, exponent)
    if exponent == 1:
        return base
    if exponent in (2, 3):
        square = call.pointwise("mul", base, base)
        return square if exponent == 2 else call.pointwise("mul", square, base)
    known = {0.5: "sqrt", -0.5: "rsqrt", -1: "reciprocal"}
    if isinstance(exponent, int | float) and exponent in known:
        return call.pointwise(known[exponent], base)
    return call.pointwise("pow", base, exponent)


def _clamp(call: Call) -> NodeRef:
    value = call.args[0]
    for place, name, operation in ((1, "min", "maximum"), (2, "max", "minimum")):
        bound = call.get(place, name)
        if bound is not None:
            value = call.pointwise(operation, value, bound)
    assert isinstance(value, NodeRef)
    return value


def _converted(call: Call) -> NodeRef:
    place = call.args[0]
    assert isinstance(place, NodeRef)
    if call.builder.dtype(place) == call.dtype:
        return place
    return call.pointwise("convert", place)


def _filled(call: Call) -> NodeRef:
    values = {"zeros": 0, "zeros_like": 0, "ones": 1, "ones_like": 1, "scalar_tensor": call.args[0]}
    value = values.get(call.name, call.args[1] if len(call.args) > 1 and call.name.startswith("full") else 0)
    place = call.builder.constant(value, call.dtype)
    return place if not call.shape else call.builder.add(Broadcast(call.shape, call.dtype, (place.node,)))


def _view(call: Call) -> NodeRef:
    place = call.args[0]
    assert isinstance(place, NodeRef)
    if call.builder.shape(place) == call.shape:
        return place
    return call.builder.add(ViewNode(call.shape, call.dtype, (place.node,)))


def _broadcast(call: Call) -> NodeRef:
    """expand, and copy, which puts its second argument where the first was."""
    place = call.args[1] if call.name == "copy" else call.args[0]
    assert isinstance(place, NodeRef)
    if call.builder.dtype(place) != call.dtype:
        place = call.builder.pointwise("convert", (place,), call.builder.shape(place), call.dtype)
    if call.builder.shape(place) == call.shape:
        return place
    return call.builder.add(Broadcast(call.shape, call.dtype, (place.node,)))


def _permute(call: Call) -> NodeRef:
    place = call.args[0]
    assert isinstance(place, NodeRef)
    rank = len(call.shape)
    if call.name == "permute":
        dims = [dim % rank for dim in call.args[1]]
    else:
        dims = list(range(rank))
        one, other = (call.args[1] % rank, call.args[2] % rank) if call.name == "transpose" else (0, 1)
        dims[one], dims[other] = dims[other], dims[one]
    return _permuted(call, place, tuple(dims), call.shape)


def _permuted(call: Call, place: NodeRef, dims: tuple[int, ...], shape: Shape) -> NodeRef:
    """The transpose of a product is the product of the transposes, which templates can read as they lie."""
    node = call.builder.nodes[place.node]
    if dims == tuple(range(len(dims))):
        return place
    if isinstance(node, Matmul) and dims == (1, 0):
        turned = [
            _permuted(call, NodeRef(operand), dims, call.builder.nodes[operand].shape[::-1]) for operand in node.inputs
        ]
        return call.builder.add(Matmul(shape, call.dtype, (turned[1].node, turned[0].node)))
    if isinstance(node, Permute):
        return _permuted(call, NodeRef(node.inputs[0]), tuple(node.dims[dim] for dim in dims), shape)
    return call.builder.add(Permute(shape, call.dtype, (place.node,), dims))


def _dims(call: Call, place: NodeRef, given: Any) -> tuple[int, ...]:
    rank = len(call.builder.shape(place))
    if given is None or given == []:
        return tuple(range(rank))
    return tuple(sorted(dim % rank for dim in (given if isinstance(given, list) else [given])))


def _reshaped(call: Call, place: NodeRef, shape: Shape) -> NodeRef:
    if call.builder.shape(place) == shape:
        return place
    return call.builder.add(ViewNode(shape, call.builder.dtype(place), (place.node,)))


def _reduction(operation: str) -> Lowering:
    def lowering(call: Call) -> NodeRef:
        place = call.args[0]
        assert isinstance(place, NodeRef)
        dims = _dims(call, place, call.get(1, "dim"))
        if operation.startswith("arg") and len(dims) != 1:
            whole = (total(call.builder.shape(place)),)
            place, dims = _reshaped(call, place, whole), (0,)
        return _reshaped(call, reduced(call, operation, place, dims), call.shape)

    return lowering


def _count(call: Call, place: NodeRef, dims: tuple[int, ...]) -> Extent:
    return total(tuple(call.builder.shape(place)[dim] for dim in dims))


def _divided(call: Call, sums: NodeRef, count: Number, shape: Shape) -> NodeRef:
    return call.builder.pointwise("div", (sums, count), shape, call.builder.dtype(sums))


def _mean(call: Call) -> NodeRef:
    place = call.args[0]
    assert isinstance(place, NodeRef)
    dims = _dims(call, place, call.get(1, "dim"))
    sums = _reshaped(call, reduced(call, "sum", place, dims), call.shape)
    return _divided(call, sums, _count(call, place, dims), call.shape)


def _moments(call: Call) -> tuple[NodeRef, NodeRef]:
    """Variance and mean, the variance from squares of deviations: exact where the mean is large."""
    place = call.args[0]
    assert isinstance(place, NodeRef)
    shape, dtype = call.builder.shape(place), call.builder.dtype(place)
    dims = _dims(call, place, call.get(1, "dim"))
    keep = tuple(Extent(1, 1) if dim in dims else extent for dim, extent in enumerate(shape))
    count = _count(call, place, dims)
    sums = _reshaped(call, reduced(call, "sum", place, dims, dtype), keep)
    mean = _divided(call, sums, count, keep)
    away = call.builder.pointwise("sub", (place, mean), shape, dtype)
    square = call.builder.pointwise("mul", (away, away), shape, dtype)
    squares = _reshaped(call, reduced(call, "sum", square, dims, dtype), keep)
    correction = call.get(2, "correction")
    unbiased = 1 if correction is None else correction
    if unbiased:
        divisor: Number = Formula("-", (count, float(unbiased)))
        variance = _divided(call, squares, divisor, keep)
    else:
        variance = _divided(call, squares, count, keep)
    if not call.kwargs.get("keepdim", False) and len(keep) != len(shape) - len(dims):
        kept = tuple(extent for dim, extent in enumerate(shape) if dim not in dims)
        return _reshaped(call, variance, kept), _reshaped(call, mean, kept)
    return variance, mean


def _extreme(call: Call) -> Lowered:
    """Values and places of max(dim) and min(dim)."""
    place, dim = call.args[0], call.args[1] if len(call.args) > 1 else None
    assert isinstance(place, NodeRef)
    dims = _dims(call, place, dim)
    shape = call.builder.shape(place)
    if dim is None:
        return _reshaped(call, reduced(call, call.name, place, dims), ())
    keep = call.get(2, "keepdim", False)
    form = tuple(Extent(1, 1) if d in dims else extent for d, extent in enumerate(shape) if keep or d not in dims)
    dtype = call.builder.dtype(place)
    values = reduced(call, call.name, place, dims, dtype)
    indices = reduced(call, f"arg{call.name}", place, dims, "int64")
    return _reshaped(call, values, form), _reshaped(call, indices, form)


def _item(call: Call) -> Lowered:
    places, which = call.args
    chosen = places[which] if which < len(places) else None
    if chosen is None:
        raise call.refuse("its further result")
    assert isinstance(chosen, NodeRef)
    return chosen


def _gather(call: Call) -> NodeRef:
    place, dim, index = call.args[:3]
    rank = len(call.builder.shape(place))
    if dim % rank != rank - 1 or not call.builder.shape(index)[-1].single:
        raise call.refuse("other than one element of each row")
    return call.builder.add(Gather(call.shape, call.dtype, (place.node, index.node)))


def _is_zero(builder: GraphBuilder, place: NodeRef) -> bool:
    node = builder.nodes[place.node]
    if isinstance(node, Broadcast):
        return _is_zero(builder, NodeRef(node.inputs[0]))
    return isinstance(node, Constant) and node.value == 0


def _scatter(call: Call) -> NodeRef:
    """One element of each row replaced is a choice by position; whole tensors go into zeros only."""
    base, dim, index, value = call.args[:4]
    rank = len(call.shape)
    places = call.builder.shape(index)
    if isinstance(value, NodeRef) and dim % rank == rank - 1 and _is_zero(call.builder, base):
        if places != call.builder.shape(value) or places[:-1] != call.shape[:-1]:
            raise call.refuse("of part of a tensor")
        return call.builder.add(Scatter(call.shape, call.dtype, (index.node, value.node)))
    if dim % rank != rank - 1 or not call.builder.shape(index)[-1].single or isinstance(value, NodeRef):
        raise call.refuse("other than one number into each row")
    position = call.builder.add(Position(call.shape, "int64"))
    here = call.builder.pointwise("eq", (position, index), call.shape, "bool")
    number = call.builder.constant(value, call.dtype)
    return call.pointwise("where", here, number, base)


def _matrix_of_all(call: Call, place: NodeRef) -> NodeRef | None:
    """The matrix that a whole stack repeats."""
    node = call.builder.nodes[place.node]
    while isinstance(node, ViewNode) and call.builder.nodes[node.inputs[0]].shape == node.shape:
        node = call.builder.nodes[node.inputs[0]]
    if not isinstance(node, Broadcast):
        return None
    inner = call.builder.nodes[node.inputs[0]]
    if inner.shape[-2:] != node.shape[-2:] or not total(inner.shape[:-2]).single:
        return None
    return _reshaped(call, NodeRef(node.inputs[0]), inner.shape[-2:])


def _matmul(call: Call) -> NodeRef:
    first, second = call.args[:2]
    taken = without_scales(call.builder, first, second)
    if taken is not None:
        inner = Call(call.builder, call.name, taken.operands, {}, call.shape, call.dtype)
        made = first_of((_matmul, stacked), inner)
        assert isinstance(made, NodeRef)
        return taken.applied(call, made)
    same = _matrix_of_all(call, second) if len(call.shape) == 3 and call.dtype == "float32" else None
    if same is not None:  # one product of all rows of the stack
        stack, rows, columns = call.shape
        flat = _reshaped(call, first, (stack * rows, call.builder.shape(first)[2]))
        made = call.builder.add(Matmul((stack * rows, columns), call.dtype, (flat.node, same.node)))
        return _reshaped(call, made, call.shape)
    if len(call.shape) != 2 or call.dtype != "float32":
        raise call.refuse("other than of two float32 matrices")
    if is_widened(call.builder, first) and is_widened(call.builder, second):
        raise call.refuse("of narrow matrices as float32")
    return call.builder.add(Matmul(call.shape, call.dtype, (first.node, second.node)))


def _where(call: Call) -> NodeRef:
    return call.pointwise("where", *call.args)


LOWERINGS: dict[str, Lowering] = {
    **dict.fromkeys(("alias", "detach", "clone", "lift_fresh_copy", "contiguous"), _same_value),
    **dict.fromkeys(("add", "sub"), _sum_of),
    **dict.fromkeys(("view", "reshape", "_unsafe_view", "unsqueeze", "squeeze"), _view),
    **dict.fromkeys(("permute", "transpose", "t"), _permute),
    **dict.fromkeys(("full", "full_like", "zeros", "zeros_like", "ones", "ones_like", "scalar_tensor"), _filled),
    **dict.fromkeys(("empty", "empty_like", "new_empty", "new_zeros", "empty_permuted"), _filled),
    **dict.fromkeys(("mm", "bmm"), _matmul),
    **dict.fromkeys(("max", "min"), _extreme),
    "pow": _power,
    "clamp": _clamp,
    "_to_copy": _converted,
    **dict.fromkeys(("expand", "copy"), _broadcast),
    "sum": _reduction("sum"),
    "prod": _reduction("prod"),
    "any": _reduction("any"),
    "all": _reduction("all"),
    "amax": _reduction("max"),
    "amin": _reduction("min"),
    "argmax": _reduction("argmax"),
    "argmin": _reduction("argmin"),
    "mean": _mean,
    "var_mean": _moments,
    "var": lambda call: _moments(call)[0],
    "getitem": _item,
    "gather": _gather,
    "scatter": _scatter,
    "where": _where,
    "max_pool2d_with_indices": lower_windows.pool,
    "max_pool2d_with_indices_backward": lower_windows.pool_backward,
    "convolution": lower_windows.convolution,
    "convolution_backward": lower_windows.convolution_backward,  # type: ignore[dict-item]
}
