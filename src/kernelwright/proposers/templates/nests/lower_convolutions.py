"""Lowers convolutions of any rank, grouped, dilated and transposed, and their gradients to contractions.

There are two of them. One slides: every result sums over channels and places of the window; a convolution and the
gradient of a transposed one towards its input read at o × stride + t × dilation - padding, a transposed convolution and
the gradient of a plain one at the place for which that is the other way round. The other contraction sums over images
and places and gives the gradient of a weight.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from kernelwright.proposers.templates.graph import ONE, Call, Extent, NodeRef, Shape, ViewNode, reduced
from kernelwright.proposers.templates.nests.index_maps import (
    Contraction,
    IndexTerm,
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
from kernelwright.proposers.templates.nests.lower_views import mapped


@dataclass(frozen=True)
class _Sliding:
    stride: list[int]
    padding: list[int]
    dilation: list[int]
    groups: int


def convolved(call: Call) -> NodeRef:
    source, weight, bias, stride, padding, dilation, transposed = call.args[:7]
    rank = len(call.shape) - 2
    sliding = _sliding(call, rank, stride, padding, dilation, call.args[8])
    made = _slid(call, source, weight, call.shape, sliding, backwards=bool(transposed))
    if bias is None:
        return made
    lifted = call.builder.add(ViewNode((call.builder.shape(bias)[0], *(ONE,) * rank), call.dtype, (bias.node,)))
    return call.pointwise("add", made, lifted)


def convolution_gradients(call: Call) -> tuple[NodeRef | None, ...]:
    gradient, source, weight, _, stride, padding, dilation, transposed = call.args[:8]
    form = call.builder.shape(gradient)
    sliding = _sliding(call, len(form) - 2, stride, padding, dilation, call.args[9])
    wanted = call.args[10]
    made: list[NodeRef | None] = [None, None, None]
    if wanted[0]:
        shape = call.builder.shape(source)
        made[0] = _slid(call, gradient, weight, shape, sliding, backwards=not transposed)
    if wanted[1]:
        still, moved = (source, gradient) if transposed else (gradient, source)
        made[1] = _met(call, still, moved, call.builder.shape(weight), sliding)
    if wanted[2]:
        dims = tuple(dim for dim in range(len(form)) if dim != 1)
        made[2] = reduced(call, "sum", gradient, dims, call.builder.dtype(gradient))
    return tuple(made)


def _sliding(call: Call, rank: int, stride: Any, padding: Any, dilation: Any, groups: Any) -> _Sliding:
    if not isinstance(groups, int):
        raise call.refuse("in a number of groups that varies")
    steps, pads, gaps = (_each(call, one, rank) for one in (stride, padding, dilation))
    return _Sliding(steps, pads, gaps, groups)


def _each(call: Call, value: Any, rank: int) -> list[int]:
    values = list(value) if isinstance(value, list | tuple) else [value]
    if not all(isinstance(one, int) for one in values):
        raise call.refuse("with a window whose steps vary")
    return values * rank if len(values) == 1 else values


def _shared(call: Call, channels: Extent, groups: int) -> Extent:
    if groups == 1:
        return channels
    if channels.literal is None:
        raise call.refuse("in groups of a size that varies")
    return Extent(channels.first // groups, channels.second // groups)


def _place(shape: Shape, dim: int) -> IndexTerm:
    return 0 if shape[dim].single else place(dim)


def _contracted(call: Call, left: NodeRef, right: NodeRef, kept: int) -> NodeRef:
    shape, dtype = call.builder.shape(left), call.builder.dtype(left)
    value = call.builder.pointwise("mul", (left, right), shape, dtype)
    return call.builder.add(Contraction(shape[:kept], dtype, (value.node,), "sum", tuple(range(kept, len(shape)))))


def _viewed(call: Call, made: NodeRef, shape: Shape) -> NodeRef:
    if call.builder.shape(made) == shape:
        return made
    return call.builder.add(ViewNode(shape, call.builder.dtype(made), (made.node,)))


def _slid(call: Call, image: NodeRef, weight: NodeRef, shape: Shape, sliding: _Sliding, *, backwards: bool) -> NodeRef:
    """Space: batch, (group,) filter, places, then channel and window. Backwards, the channel is the weight's first."""
    given, kernel = call.builder.shape(image), call.builder.shape(weight)
    rank, groups = len(shape) - 2, sliding.groups
    each, share = _shared(call, shape[1], groups), _shared(call, given[1], groups)
    several = (Extent(groups, groups),) if groups > 1 else ()
    form = (shape[0], *several, each, *shape[2:])
    space = (*form, share, *kernel[2:])
    first = len(form) - rank  # of the places
    group = place(1) if groups > 1 else 0
    filter_, channel = _place(space, first - 1), _place(space, len(form))
    window = [_place(space, len(form) + 1 + n) for n in range(rank)]
    at, guards = _read_at(call, given, [_place(space, first + n) for n in range(rank)], window, sliding, backwards)
    source = [_place(space, 0), plus(times(group, size_of(share)), channel), *at]
    whole = plus(times(group, size_of(each)), filter_)
    pair = [source[1], filter_] if backwards else [whole, channel]
    left = mapped(call, image, source, space, guard=every(guards))
    right = mapped(call, weight, [*pair, *window], space)
    return _viewed(call, _contracted(call, left, right, len(form)), shape)


def _read_at(
    call: Call, given: Shape, places: Sequence[IndexTerm], window: Sequence[IndexTerm], how: _Sliding, backwards: bool
) -> tuple[list[IndexTerm], list[IndexTerm]]:
    at: list[IndexTerm] = []
    guards: list[IndexTerm] = []
    for n, (here, inner) in enumerate(zip(places, window, strict=True)):
        step, pad, gap, size = how.stride[n], how.padding[n], how.dilation[n], size_of(given[2 + n])
        if backwards:
            away = minus(plus(here, pad), times(inner, gap))
            at.append(over(away, step))
            guards.append(compared(">=", away, 0))
            guards += [compared("==", rest(away, step), 0)] if step != 1 else []
            guards.append(compared("<", at[-1], size))
        else:
            at.append(minus(plus(times(here, step), times(inner, gap)), pad))
            guards += [within(at[-1], size)] if pad else []
    return at, guards


def _met(call: Call, still: NodeRef, moved: NodeRef, shape: Shape, how: _Sliding) -> NodeRef:
    """Space: (group,) channel of `still`, channel of `moved`, window, then batch and the places of `still`."""
    fixed, given = call.builder.shape(still), call.builder.shape(moved)
    rank, groups = len(shape) - 2, how.groups
    own, other = _shared(call, fixed[1], groups), _shared(call, given[1], groups)
    several = (Extent(groups, groups),) if groups > 1 else ()
    form = (*several, own, other, *shape[2:])
    space = (*form, fixed[0], *fixed[2:])
    lead, group = len(several), place(0) if groups > 1 else 0
    window = [_place(space, lead + 2 + n) for n in range(rank)]
    places = [_place(space, len(form) + 1 + n) for n in range(rank)]
    batch = _place(space, len(form))
    at, guards = _read_at(call, given, places, window, how, backwards=False)
    first = [batch, plus(times(group, size_of(own)), _place(space, lead)), *places]
    second = [batch, plus(times(group, size_of(other)), _place(space, lead + 1)), *at]
    left = mapped(call, still, first, space)
    right = mapped(call, moved, second, space, guard=every(guards))
    return _viewed(call, _contracted(call, left, right, len(form)), shape)
