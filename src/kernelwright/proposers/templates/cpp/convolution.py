"""Renders a convolution and its two gradients as products over the windows of an image padded with zeros."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
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
    if step.kind != "weight":
        body = rows.render_epilogue(step.epilogue, genes, sizes, pointers) if step.epilogue else ""
        if step.kind == "forward" and step.window == Window((1, 1), (1, 1), (0, 0)):
            body += _pointwise(step, genes, sizes, pointers)
        else:
            image, weight, result = (pointers[name] for name in (step.first, step.second, step.output))
            body += windows.call(
                _window_form(step), image, weight, result, genes, sizes, "last" if step.epilogue else "NoRows{}"
            )
        return indent(f"{{\n{indent(body, '  ')}}}\n", "  ")
    names = ("batch", "channels", "height", "width", "filters", "tall", "broad")
    body = "".join(f"const int64_t {name} = {sizes.expression(getattr(step, name))};\n" for name in names)
    body += _windows(step.window, pointers[step.second]) + _towards_weight(step, genes, pointers)
    return indent(f"{{\n{indent(body, '  ')}}}\n", "  ")


def _window_form(step: ConvolutionStep) -> windows.WindowForm:
    """The gradient of the input is a transposed convolution of the gradient."""
    forward = step.kind == "forward"
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
    channels, filters = (step.channels, step.filters) if forward else (step.filters, step.channels)
    return windows.WindowForm(0, step.batch, ONE, channels, filters, tuple(slides), forward)


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


def _windows(window: Window, source: str) -> str:
    """Where the windows lie in the padded image, and the elements of each relative to its start."""
    (kh, kw), (sh, sw), (ph, pw), (dh, dw) = window.kernel, window.stride, window.padding, window.dilation
    grown = (f"height + {2 * ph}", f"width + {2 * pw}")
    return (
        _padded(source, "channels", "height", "width", *grown, (1, 1), (ph, pw))
        + f"const auto pixel = offsets(1, 0, tall, {sh} * wide_, broad, {sw});\n"
        + f"const auto tap = offsets(channels, high_ * wide_, {kh}, {dh} * wide_, {kw}, {dw});\n"
    )


def _towards_weight(step: ConvolutionStep, genes: Genes, pointers: Mapping[str, str]) -> str:
    """All pixels of all images are the depth of one product."""
    taps = prod(step.window.kernel)
    tables = (
        "const auto given = offsets(batch, filters * tall * broad, 1, 0, tall * broad, 1);\n"
        "const auto filter = offsets(1, 0, 1, 0, filters, tall * broad);\n"
        "std::vector<int64_t> place;\n"
        "for (int64_t b = 0; b < batch; ++b)\n"
        "  for (const int64_t at : pixel) place.push_back(b * channels * high_ * wide_ + at);\n"
    )
    operands = (
        f"[&](int64_t) {{ return Operands{{Indexed{{{pointers[step.first]}, filter.data(), given.data()}}, "
        f"Indexed{{image, tap.data(), place.data()}}, {pointers[step.output]}, channels * {taps}}}; }}"
    )
    form = ("1", "filters", f"channels * {taps}", "batch * tall * broad")
    return tables + product.call(genes, *form, operands, "Nothing{}")


def _padded(
    source: str,
    planes: str,
    height: str,
    width: str,
    tall: str,
    broad: str,
    step: tuple[int, int],
    moved: tuple[int, int],
) -> str:
    """Declares `image` with planes of high_ × wide_: the tensor itself where nothing has to be added."""
    text = f"const int64_t high_ = {tall}, wide_ = {broad};\n"
    if step == (1, 1) and moved == (0, 0) and tall in (height, f"{height} + 0") and broad in (width, f"{width} + 0"):
        return text + f"const float* const image = {source};\n"
    return text + (
        "static std::vector<float> image_memory;\n"
        f"const size_t room = static_cast<size_t>(batch * {planes} * high_ * wide_);\n"
        "if (image_memory.size() < room) image_memory.resize(room);\n"
        "const float* const image = image_memory.data();\n"
        f"padded({source}, batch * {planes}, {height}, {width}, image_memory.data(), high_, wide_, "
        f"{step[0]}, {step[1]}, {moved[0]}, {moved[1]});\n"
    )
