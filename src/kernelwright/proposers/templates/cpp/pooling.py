"""Renders maximum pooling and its backward: a row of windows at a time, vectors of windows within it."""

from __future__ import annotations

from collections.abc import Mapping
from textwrap import indent

from kernelwright.proposers.templates.genes import Gene, GenePool, Genes
from kernelwright.proposers.templates.graph import Window
from kernelwright.proposers.templates.patterns.heavy import PoolBackwardStep, PoolStep
from kernelwright.proposers.templates.sizes import Sizes


def gene_pool(step: PoolStep | PoolBackwardStep) -> GenePool:
    return GenePool(
        (
            Gene("width", (8, 16), (16, 8)),
            Gene("grain", (4096, 16384, 65536, 262144), (16384, 65536, 4096)),
            Gene("stream", (False, True), (True, False)),
            Gene("block", (0, 8, 32, 128), (0, 32)),
        )
    )


def describe(step: PoolStep | PoolBackwardStep, genes: Genes) -> str:
    what = "maxima" if isinstance(step, PoolStep) else "gradients"
    kernel = "×".join(map(str, step.window.kernel))
    parts = [f"{what} of {kernel} windows, {genes['width']} at a time"]
    parts.append("equal shares of rows for each thread" if genes["block"] == 0 else "rows handed out in blocks")
    if genes["stream"]:
        parts.append("streaming stores where rows are whole vectors")
    return ", ".join(parts)


def render(step: PoolStep | PoolBackwardStep, genes: Genes, sizes: Sizes, pointers: Mapping[str, str]) -> str:
    head = _sizes(step, sizes)
    if isinstance(step, PoolStep):
        body = _forward(step.window, genes, pointers[step.input], pointers[step.output])
    else:
        names = pointers[step.gradient], pointers[step.input], pointers[step.output]
        woven = step.window == Window((2, 2), (2, 2), (0, 0))
        body = (_woven if woven else _scattered)(step.window, genes, *names)
    return indent(f"{{\n{indent(head + body, '  ')}}}\n", "  ")


def _sizes(step: PoolStep | PoolBackwardStep, sizes: Sizes) -> str:
    window = step.window

    def out(size: str, axis: int) -> str:
        reach = window.dilation[axis] * (window.kernel[axis] - 1) + 1
        return f"({size} + {2 * window.padding[axis]} - {reach}) / {window.stride[axis]} + 1"

    return (
        f"const int64_t planes = {sizes.expression(step.planes)}, height = {sizes.expression(step.height)};\n"
        f"const int64_t width = {sizes.expression(step.width)};\n"
        f"const int64_t tall = {out('height', 0)}, broad = {out('width', 1)};\n"
    )


def _rows(count: str, work: str, genes: Genes, body: str) -> str:
    """`body` for every r below `count`, over the threads."""
    block = genes["block"]
    schedule = f"schedule(dynamic, {block})" if block else "schedule(static)"
    return (
        f"#pragma omp parallel for {schedule} if ({work} >= {genes['grain']})\n"
        f"for (int64_t r = 0; r < {count}; ++r) {{\n{indent(body, '  ')}}}\n"
    )


def _forward(window: Window, genes: Genes, source: str, target: str) -> str:
    (kh, kw), (sh, sw), (ph, pw), (dh, dw) = window.kernel, window.stride, window.padding, window.dilation
    body = (
        f"const float* const plane = {source} + r / tall * height * width;\n"
        f"const int64_t top = r % tall * {sh} - {ph};\n"
        f"float* const to = {target} + r * broad;\n"
        "const auto alone = [&](int64_t o) {\n"
        "  float best = -INF;\n"
        f"  for (int64_t y = top; y < top + {kh * dh}; y += {dh})\n"
        f"    for (int64_t x = o * {sw} - {pw}, end = x + {kw * dw}; x < end; x += {dw})\n"
        "      if (y >= 0 && y < height && x >= 0 && x < width) best = most(best, plane[y * width + x]);\n"
        "  to[o] = best;\n"
        "};\n"
    )
    if sw > 2:
        body += "for (int64_t o = 0; o < broad; ++o) alone(o);\n"
        return _rows("planes * tall", "planes * height * width", genes, body)
    last = f"(width + {pw} - {(kw - 1) * dw + 1}) / {sw} + 1"
    lines = [f"const float* const line = plane + y * width + o * {sw} - {pw};"]
    for x in range(kw):
        lines += _column(x * dw, sw)
    put = "if (even) stream(to + o, best, lanes_); else store(to + o, best, lanes_);"
    if not genes["stream"]:
        put = "store(to + o, best, lanes_);"
    body += (
        f"const int64_t first = std::min<int64_t>(broad, {-(-pw // sw)}), last = std::min<int64_t>(broad, {last});\n"
        "for (int64_t o = 0; o < first; ++o) alone(o);\n"
        "const bool even = broad % W == 0 && first == 0;\n"
        f"const int64_t low = std::max<int64_t>(top, top + (-top + {dh - 1}) / {dh} * {dh});\n"
        f"const int64_t under = std::min<int64_t>(height, top + {kh * dh});\n"
        "const auto step = [&](auto lanes_, int64_t o) __attribute__((always_inline)) {\n"
        "  V best = wide(-INF);\n"
        f"  const int64_t left = width - (o * {sw} - {pw});  // elements from the first window to the end of the line\n"
        f"  for (int64_t y = top >= 0 ? top : low; y < under; y += {dh}) {{\n"
        + indent("\n".join(lines), "    ")
        + "\n  }\n"
        f"  {put}\n"
        "};\n"
        "int64_t o = first;\n"
        f"for (; o + W <= last && (o + W) * {sw} + {(kw - 1) * dw} <= width + {pw}; o += W) step(All{{}}, o);\n"
        "for (; o < last; o += W) step(upto(last - o), o);\n"
        "for (o = std::max(first, last); o < broad; ++o) alone(o);\n"
    )
    return _rows("planes * tall", "planes * height * width", genes, body)


def _column(x: int, stride: int) -> list[str]:
    """The elements at offset x of consecutive windows; loads never go past the line when lanes are counted."""
    if stride == 1:
        return [f"best = most(best, load_to(line + {x}, left - {x}, lanes_));"]
    if x % 2:
        base = x - 1
        pair = f"load_to(line + {base}, left - {base}, lanes_), load_to(line + {base} + W, left - {base} - W, lanes_)"
        return [f"best = most(best, odds({pair}));"]
    pair = f"load_to(line + {x}, left - {x}, lanes_), load_to(line + {x} + W, left - {x} - W, lanes_)"
    return [f"best = most(best, evens({pair}));"]


def _woven(window: Window, genes: Genes, gradient: str, source: str, target: str) -> str:
    """Windows of 2×2 that touch and do not overlap: every gradient goes to one of four places, the rest is zero."""
    put = "if (even) stream{0} else store{0}" if genes["stream"] else "store{0}"
    stores = "\n".join(
        put.format(f"(to{y} + 2 * o{' + W' if half else ''}, woven_{name}({a}, {b}), half{half}(lanes_, left));")
        for y, a, b in ((0, "g0", "g1"), (1, "g2", "g3"))
        for half, name in ((0, "low"), (1, "high"))
    )
    body = (
        "const int64_t plane = r / tall, line = r % tall;\n"
        f"const float* const from0 = {source} + plane * height * width + 2 * line * width;\n"
        "const float* const from1 = from0 + width;\n"
        f"float* const to0 = {target} + plane * height * width + 2 * line * width;\n"
        "float* const to1 = to0 + width;\n"
        f"const float* const given = {gradient} + r * broad;\n"
        "const bool even = width % (2 * W) == 0;\n"
        "const auto step = [&](auto lanes_, int64_t o) __attribute__((always_inline)) {\n"
        "  const int64_t left = 2 * (broad - o);\n"
        "  const V a0 = load_to(from0 + 2 * o, left, lanes_), b0 = load_to(from0 + 2 * o + W, left - W, lanes_);\n"
        "  const V a1 = load_to(from1 + 2 * o, left, lanes_), b1 = load_to(from1 + 2 * o + W, left - W, lanes_);\n"
        "  const V x0 = evens(a0, b0), x1 = odds(a0, b0), x2 = evens(a1, b1), x3 = odds(a1, b1);\n"
        "  const V g = load(given + o, lanes_);\n"
        "  const I t1 = (x1 > x0) | (x1 != x1);\n"
        "  const V m1 = pick(t1, x1, x0);\n"
        "  const I t2 = (x2 > m1) | (x2 != x2);\n"
        "  const V m2 = pick(t2, x2, m1);\n"
        "  const I t3 = (x3 > m2) | (x3 != x3);\n"
        "  const V g3 = pick(t3, g, V{}), g2 = pick(t2 & ~t3, g, V{});\n"
        "  const V g1 = pick(t1 & ~t2 & ~t3, g, V{}), g0 = pick(t1 | t2 | t3, V{}, g);\n"
        + indent(stores, "  ")
        + "\n};\n"
        "int64_t o = 0;\n"
        "for (; o + W <= broad; o += W) step(All{}, o);\n"
        "if (o < broad) step(upto(broad - o), o);\n"
        "if (width % 2) to0[width - 1] = to1[width - 1] = 0.0f;\n"
        "if (line == tall - 1 && height % 2) std::fill(to1 + width, to1 + 2 * width, 0.0f);\n"
    )
    empty = f"if (tall == 0 || broad == 0) std::fill({target}, {target} + planes * height * width, 0.0f);\n"
    return empty + _rows("planes * tall", "planes * height * width", genes, body)


def _scattered(window: Window, genes: Genes, gradient: str, source: str, target: str) -> str:
    """Any window: a plane is cleared, and each window adds to the place of its first maximum."""
    (kh, kw), (sh, sw), (ph, pw), (dh, dw) = window.kernel, window.stride, window.padding, window.dilation
    body = (
        f"const float* const plane = {source} + r * height * width;\n"
        f"float* const to = {target} + r * height * width;\n"
        f"const float* const given = {gradient} + r * tall * broad;\n"
        "std::fill(to, to + height * width, 0.0f);\n"
        "for (int64_t line = 0; line < tall; ++line) {\n"
        "  for (int64_t o = 0; o < broad; ++o) {\n"
        "    float best = -INF;\n"
        "    int64_t at = -1;\n"
        f"    for (int64_t y = line * {sh} - {ph}, under = y + {kh * dh}; y < under; y += {dh})\n"
        f"      for (int64_t x = o * {sw} - {pw}, end = x + {kw * dw}; x < end; x += {dw}) {{\n"
        "        if (y < 0 || y >= height || x < 0 || x >= width) continue;\n"
        "        const float value = plane[y * width + x];\n"
        "        if (at < 0 || value > best || value != value) best = value, at = y * width + x;\n"
        "      }\n"
        "    to[at] += given[line * broad + o];\n"
        "  }\n"
        "}\n"
    )
    return _rows("planes", "planes * height * width", genes, body)
