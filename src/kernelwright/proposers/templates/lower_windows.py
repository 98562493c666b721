"""Lowers what slides a window: pooling and convolutions, forward and backward."""

from __future__ import annotations

from typing import Any

from kernelwright.proposers.templates.graph import (
    Call,
    Convolution,
    ConvolutionInput,
    ConvolutionWeight,
    Extent,
    NodeRef,
    PoolBackward,
    PoolNode,
    PoolPlaces,
    ViewNode,
    Window,
    reduced,
)

MOST_TAPS = 25  # of a window that is written out


def _pair(value: Any) -> tuple[int, int]:
    values = list(value) if isinstance(value, list | tuple) else [value]
    return int(values[0]), int(values[-1])


def _pool_window(call: Call, start: int) -> Window:
    kernel = _pair(call.args[start])
    stride = call.get(start + 1, "stride")
    window = Window(
        kernel,
        _pair(stride) if stride else kernel,
        _pair(call.get(start + 2, "padding", 0)),
        _pair(call.get(start + 3, "dilation", 1)),
    )
    if call.get(start + 4, "ceil_mode", False):
        raise call.refuse("with ceil_mode")
    return window


def pool(call: Call) -> tuple[NodeRef, NodeRef]:
    place = call.args[0]
    shape, dtype = call.builder.shape(place), call.builder.dtype(place)
    if dtype != "float32":
        raise call.refuse(f"of {dtype}")
    window = _pool_window(call, 1)

    def out(extent: Extent, axis: int) -> Extent:
        reach = window.dilation[axis] * (window.kernel[axis] - 1) + 1

        def size(value: int) -> int:
            return (value + 2 * window.padding[axis] - reach) // window.stride[axis] + 1

        return Extent(size(extent.first), size(extent.second))

    form = (*shape[:-2], out(shape[-2], 0), out(shape[-1], 1))
    values = call.builder.add(PoolNode(form, dtype, (place.node,), window))
    return values, call.builder.add(PoolPlaces(form, "int64", (place.node,)))


def pool_backward(call: Call) -> NodeRef:
    gradient, values = call.args[:2]
    if call.dtype != "float32" or not isinstance(call.builder.nodes[call.args[7].node], PoolPlaces):
        raise call.refuse(f"of {call.dtype}, or after a pooling that is not plain")
    return call.builder.add(PoolBackward(call.shape, call.dtype, (gradient.node, values.node), _pool_window(call, 2)))


def _slid(call: Call, start: int, kernel: tuple[int, int]) -> Window:
    stride, padding, dilation, transposed = call.args[start : start + 4]
    if transposed or len(stride) != 2 or call.dtype not in ("", "float32"):
        raise call.refuse("other than plain two-dimensional")
    return Window(kernel, _pair(stride), _pair(padding), _pair(dilation))


def _kernel(call: Call, weight: NodeRef) -> tuple[int, int]:
    height, width = (extent.literal for extent in call.builder.shape(weight)[-2:])
    if height is None or width is None:
        raise call.refuse("with a window whose size varies")
    if height * width > MOST_TAPS:
        raise call.refuse(f"with {height * width} taps, which are sums over a window")
    return height, width


def convolution(call: Call) -> NodeRef:
    values, weight, bias = call.args[:3]
    if len(call.shape) != 4 or call.args[8] != 1:
        raise call.refuse("other than plain two-dimensional")
    window = _slid(call, 3, _kernel(call, weight))
    made = Convolution(call.shape, call.dtype, (values.node, weight.node), window, int(call.args[8]))
    place = call.builder.add(made)
    if bias is None:
        return place
    channels = call.builder.shape(bias)[0]
    lifted = call.builder.add(ViewNode((channels, Extent(1, 1), Extent(1, 1)), call.dtype, (bias.node,)))
    return call.pointwise("add", place, lifted)


def convolution_backward(call: Call) -> tuple[NodeRef | None, ...]:
    gradient, values, weight = call.args[:3]
    dtype = call.builder.dtype(gradient)
    if len(call.builder.shape(gradient)) != 4 or call.args[9] != 1 or dtype != "float32":
        raise call.refuse("other than plain two-dimensional")
    window = _slid(call, 4, _kernel(call, weight))
    groups, wanted = int(call.args[9]), call.args[10]
    add = call.builder.add
    made: list[NodeRef | None] = [None, None, None]
    if wanted[0]:
        shape = call.builder.shape(values)
        made[0] = add(ConvolutionInput(shape, dtype, (gradient.node, weight.node), window, groups))
    if wanted[1]:
        shape = call.builder.shape(weight)
        made[1] = add(ConvolutionWeight(shape, dtype, (gradient.node, values.node), window, groups))
    if wanted[2]:
        made[2] = reduced(call, "sum", gradient, (0, 2, 3), dtype)
    return tuple(made)
