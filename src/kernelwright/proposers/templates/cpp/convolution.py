"""Renders a convolution and its two gradients as products over the windows of an image padded with zeros."""

from __future__ import annotations

from collections.abc import Mapping
from textwrap import indent

from kernelwright.proposers.templates.cpp import product, rows, windows
from kernelwright.proposers.templates.genes import GenePool, Genes
from kernelwright.proposers.templates.graph import ONE, Extent, Window
from kernelwright.proposers.templates.patterns.heavy import ConvolutionStep
from kernelwright.proposers.templates.sizes import Sizes


def gene_pool(step: ConvolutionStep) -> GenePool:
    return product.gene_pool(plain=False)


def describe(step: ConvolutionStep, genes: Genes) -> str:
    what = {"forward": "convolution", "input": "gradient of the input", "weight": "gradient of the weight"}[step.kind]
    text = f"{what} as a product over windows, {product.describe(genes)}"
    return text + (", the steps after it on each finished block" if step.epilogue else "")


def render(step: ConvolutionStep, genes: Genes, sizes: Sizes, pointers: Mapping[str, str]) -> str:
    body = rows.render_epilogue(step.epilogue, genes, sizes, pointers) if step.epilogue else ""
    first, second, result = (pointers[name] for name in (step.first, step.second, step.output))
    if step.kind == "weight":
        form = windows.MeetingForm(0, step.batch, ONE, step.filters, step.channels, _slides(step, forward=True))
        body += windows.meeting_call(form, first, second, result, genes, sizes)
    elif step.kind == "forward" and step.window == Window((1, 1), (1, 1), (0, 0)):
        body += _pointwise(step, genes, sizes, pointers)
    else:
        last = "last" if step.epilogue else "NoRows{}"
        body += windows.call(_window_form(step), first, second, result, genes, sizes, last)
    return indent(f"{{\n{indent(body, '  ')}}}\n", "  ")


def _window_form(step: ConvolutionStep) -> windows.WindowForm:
    """The gradient of the input is a transposed convolution of the gradient."""
    forward = step.kind == "forward"
    channels, filters = (step.channels, step.filters) if forward else (step.filters, step.channels)
    return windows.WindowForm(0, step.batch, ONE, channels, filters, _slides(step, forward=forward), forward)


def _slides(step: ConvolutionStep, *, forward: bool) -> tuple[windows.Slide, ...]:
    slides = []
    for axis, (size, out) in enumerate(((step.height, step.tall), (step.width, step.broad))):
        kernel, stride, padding, dilation = (
            getattr(step.window, name)[axis] for name in ("kernel", "stride", "padding", "dilation")
        )
        wide = Extent(kernel, kernel)
        if forward:
            slides.append(windows.Slide(out, size, wide, stride, dilation, -padding, 1))
        else:
            slides.append(windows.Slide(size, out, wide, 1, -dilation, padding, stride))
    return tuple(slides)


def _pointwise(step: ConvolutionStep, genes: Genes, sizes: Sizes, pointers: Mapping[str, str]) -> str:
    """A window of one place is a product for each image."""
    depth, places = (
        sizes.expression(step.channels),
        f"({sizes.expression(step.height)}) * ({sizes.expression(step.width)})",
    )
    filters = sizes.expression(step.filters)
    operands = (
        f"[&](int64_t b) {{ return Operands{{Strided{{{pointers[step.second]}, {depth}, 1}}, "
        f"Strided{{{pointers[step.first]} + b * {depth} * {places}, 1, {places}}}, "
        f"{pointers[step.output]} + b * {filters} * {places}, {places}}}; }}"
    )
    after = (
        "const auto after = [&](int64_t b, int64_t i0, int64_t i1, int64_t j0, int64_t j1) {\n"
        f"  for (int64_t i = i0; i < i1; ++i) last(b * {filters} + i, j0, j1);\n}};\n"
    )
    form = (sizes.expression(step.batch), filters, places, depth)
    called = product.call(genes, *form, operands, "after" if step.epilogue else "Nothing{}")
    return (after if step.epilogue else "") + called
