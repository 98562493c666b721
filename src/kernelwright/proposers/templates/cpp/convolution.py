"""Renders a convolution and its two gradients as products over the windows of an image padded with zeros."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from textwrap import indent

from kernelwright.proposers.templates.cpp import product, rows
from kernelwright.proposers.templates.genes import GenePool, Genes
from kernelwright.proposers.templates.graph import Window
from kernelwright.proposers.templates.patterns.heavy import ConvolutionStep
from kernelwright.proposers.templates.sizes import Sizes


def gene_pool(step: ConvolutionStep) -> GenePool:
    return product.gene_pool(plain=False)


def describe(step: ConvolutionStep, genes: Genes) -> str:
    what = {"forward": "convolution", "input": "gradient of the input", "weight": "gradient of the weight"}[step.kind]
    text = f"{what} as a product over windows, {product.describe(genes)}"
    return text + (", the steps after it on each finished block" if step.epilogue else "")


def render(step: ConvolutionStep, genes: Genes, sizes: Sizes, pointers: Mapping[str, str]) -> str:
    names = ("batch", "channels", "height", "width", "filters", "tall", "broad")
    body = "".join(f"const int64_t {name} = {sizes.expression(getattr(step, name))};\n" for name in names)
    if step.kind == "input":
        body += _towards_input(step, genes, pointers)
    else:
        image = pointers[step.first if step.kind == "forward" else step.second]
        body += _windows(step.window, image)
        if step.kind == "forward":
            last = rows.render_epilogue(step.epilogue, genes, sizes, pointers) if step.epilogue else ""
            body += last + _forward(step, genes, pointers)
        else:
            body += _towards_weight(step, genes, pointers)
    return indent(f"{{\n{indent(body, '  ')}}}\n", "  ")


def _windows(window: Window, source: str) -> str:
    """Where the windows lie in the padded image, and the elements of each relative to its start."""
    (kh, kw), (sh, sw), (ph, pw), (dh, dw) = window.kernel, window.stride, window.padding, window.dilation
    grown = (f"height + {2 * ph}", f"width + {2 * pw}")
    return (
        _padded(source, "channels", "height", "width", *grown, (1, 1), (ph, pw))
        + f"const auto pixel = offsets(1, 0, tall, {sh} * wide_, broad, {sw});\n"
        + f"const auto tap = offsets(channels, high_ * wide_, {kh}, {dh} * wide_, {kw}, {dw});\n"
    )


def _forward(step: ConvolutionStep, genes: Genes, pointers: Mapping[str, str]) -> str:
    taps = prod(step.window.kernel)
    operands = (
        f"[&](int64_t b) {{ return Operands{{Strided{{{pointers[step.second]}, channels * {taps}, 1}}, "
        "Indexed{image + b * channels * high_ * wide_, pixel.data(), tap.data()}, "
        f"{pointers[step.output]} + b * filters * tall * broad}}; }}"
    )
    after = (
        "const auto after = [&](int64_t b, int64_t i0, int64_t i1, int64_t j0, int64_t j1) {\n"
        "  for (int64_t i = i0; i < i1; ++i) last(b * filters + i, j0, j1);\n};\n"
    )
    form = ("batch", "filters", "tall * broad", f"channels * {taps}")
    called = product.call(genes, *form, operands, "after" if step.epilogue else "Nothing{}")
    return (after if step.epilogue else "") + called


def _towards_weight(step: ConvolutionStep, genes: Genes, pointers: Mapping[str, str]) -> str:
    """All pixels of all images are the depth of one product."""
    tables = (
        "const auto given = offsets(batch, filters * tall * broad, 1, 0, tall * broad, 1);\n"
        "const auto filter = offsets(1, 0, 1, 0, filters, tall * broad);\n"
        "std::vector<int64_t> place;\n"
        "for (int64_t b = 0; b < batch; ++b)\n"
        "  for (const int64_t at : pixel) place.push_back(b * channels * high_ * wide_ + at);\n"
    )
    operands = (
        f"[&](int64_t) {{ return Operands{{Indexed{{{pointers[step.first]}, filter.data(), given.data()}}, "
        f"Indexed{{image, tap.data(), place.data()}}, {pointers[step.output]}}}; }}"
    )
    form = ("1", "filters", f"channels * {prod(step.window.kernel)}", "batch * tall * broad")
    return tables + product.call(genes, *form, operands, "Nothing{}")


def _towards_input(step: ConvolutionStep, genes: Genes, pointers: Mapping[str, str]) -> str:
    """A convolution with the turned window over the gradient, spread out by the stride and padded."""
    (kh, kw), (ph, pw), (dh, dw) = step.window.kernel, step.window.padding, step.window.dilation
    taps = kh * kw
    grown = (f"height + {dh * (kh - 1)}", f"width + {dw * (kw - 1)}")
    moved = (dh * (kh - 1) - ph, dw * (kw - 1) - pw)
    tables = (
        "const auto pixel = offsets(1, 0, height, wide_, width, 1);\n"
        f"auto tap = offsets(filters, high_ * wide_, {kh}, -{dh} * wide_, {kw}, -{dw});\n"
        f"for (int64_t& at : tap) at += {dh * (kh - 1)} * wide_ + {dw * (kw - 1)};\n"
        f"const auto channel = offsets(1, 0, 1, 0, channels, {taps});\n"
        f"const auto weight_at = offsets(filters, channels * {taps}, 1, 0, {taps}, 1);\n"
    )
    operands = (
        f"[&](int64_t b) {{ return Operands{{Indexed{{{pointers[step.second]}, channel.data(), weight_at.data()}}, "
        "Indexed{image + b * filters * high_ * wide_, pixel.data(), tap.data()}, "
        f"{pointers[step.output]} + b * channels * height * width}}; }}"
    )
    form = ("batch", "channels", "height * width", f"filters * {taps}")
    image = _padded(pointers[step.first], "filters", "tall", "broad", *grown, step.window.stride, moved)
    return image + tables + product.call(genes, *form, operands, "Nothing{}")


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
