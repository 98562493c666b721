"""A plain two-dimensional convolution, or one of its gradients, in the form of a contraction."""

from __future__ import annotations

from kernelwright.proposers.templates.graph import ONE, Extent
from kernelwright.proposers.templates.patterns.contractions import Axis, ContractionForm, ContractionOperand, Subscript
from kernelwright.proposers.templates.patterns.heavy import ConvolutionStep


def contraction_of(step: ConvolutionStep) -> ContractionForm:
    match step.kind:
        case "forward":
            return _forward(step)
        case "input":
            return _towards_input(step)
    return _towards_weight(step)


def _plain(axis: int, size: Extent) -> Subscript:
    return Subscript(() if size.single else ((axis, ONE),), 0, 1, size, guarded=False)


def _literal(number: int) -> Extent:
    return Extent(number, number)


def _moved(step: ConvolutionStep, dim: int, place: int, tap: int) -> Subscript:
    """Where tap number `tap` of the window at `place` lies in the image."""
    window = step.window
    made, size = ((step.tall, step.height), (step.broad, step.width))[dim]
    terms = [(place, _literal(window.stride[dim]))] if not made.single else []
    terms += [(tap, _literal(window.dilation[dim]))] if window.kernel[dim] != 1 else []
    pad = window.padding[dim]
    return Subscript(tuple(sorted(terms)), -pad, 1, size, guarded=pad > 0)


def _kernel(step: ConvolutionStep) -> tuple[Extent, Extent]:
    high, wide = step.window.kernel
    return _literal(high), _literal(wide)


def _axes(*axes: tuple[Extent, str]) -> tuple[Axis, ...]:
    return tuple(Axis(extent, role) for extent, role in axes)


def _form(axes: tuple[Axis, ...], *operands: tuple[Subscript, ...]) -> ContractionForm:
    first, second = (ContractionOperand(-1, "float32", subscripts) for subscripts in operands)
    return ContractionForm(axes, (first, second), "float32")


def _forward(step: ConvolutionStep) -> ContractionForm:
    """Axes: batch, filter, places; channel, window."""
    high, wide = _kernel(step)
    axes = _axes(
        *((step.batch, "first"), (step.filters, "second"), (step.tall, "first"), (step.broad, "first")),
        *((step.channels, "depth"), (high, "depth"), (wide, "depth")),
    )
    image = (_plain(0, step.batch), _plain(4, step.channels), _moved(step, 0, 2, 5), _moved(step, 1, 3, 6))
    weight = (_plain(1, step.filters), _plain(4, step.channels), _plain(5, high), _plain(6, wide))
    return ContractionForm(
        axes, (ContractionOperand(-1, "float32", image), ContractionOperand(-1, "float32", weight)), "float32"
    )


def _towards_input(step: ConvolutionStep) -> ContractionForm:
    """Axes: batch, channel, places of the image; filter, window."""
    high, wide = _kernel(step)
    axes = _axes(
        *((step.batch, "first"), (step.channels, "second"), (step.height, "first"), (step.width, "first")),
        *((step.filters, "depth"), (high, "depth"), (wide, "depth")),
    )
    gradient = (_plain(0, step.batch), _plain(4, step.filters), _back(step, 0, 2, 5), _back(step, 1, 3, 6))
    weight = (_plain(4, step.filters), _plain(1, step.channels), _plain(5, high), _plain(6, wide))
    return ContractionForm(
        axes, (ContractionOperand(-1, "float32", gradient), ContractionOperand(-1, "float32", weight)), "float32"
    )


def _back(step: ConvolutionStep, dim: int, place: int, tap: int) -> Subscript:
    """The place of the window whose tap number `tap` lies at `place` of the image."""
    window = step.window
    made, size = ((step.tall, step.height), (step.broad, step.width))[dim]
    terms = [(place, ONE)] if not size.single or window.stride[dim] != 1 else []
    terms += [(tap, _literal(-window.dilation[dim]))] if window.kernel[dim] != 1 else []
    return Subscript(tuple(sorted(terms)), window.padding[dim], window.stride[dim], made, guarded=True)


def _towards_weight(step: ConvolutionStep) -> ContractionForm:
    """Axes: filter, channel, window; batch, places."""
    high, wide = _kernel(step)
    axes = _axes(
        *((step.filters, "first"), (step.channels, "second"), (high, "second"), (wide, "second")),
        *((step.batch, "depth"), (step.tall, "depth"), (step.broad, "depth")),
    )
    gradient = (_plain(4, step.batch), _plain(0, step.filters), _plain(5, step.tall), _plain(6, step.broad))
    image = (_plain(4, step.batch), _plain(1, step.channels), _moved(step, 0, 5, 2), _moved(step, 1, 6, 3))
    return ContractionForm(
        axes, (ContractionOperand(-1, "float32", gradient), ContractionOperand(-1, "float32", image)), "float32"
    )
