"""Renders maximum pooling and its backward: a window for each thread, two at a time where rows allow it."""

from __future__ import annotations

from kernelwright.proposers.templates.cuda.kernels import Kernel
from kernelwright.proposers.templates.cuda.pen import Pen
from kernelwright.proposers.templates.genes import Gene, GenePool, Genes
from kernelwright.proposers.templates.graph import Graph, Window
from kernelwright.proposers.templates.patterns.heavy import PoolBackwardStep, PoolStep
from kernelwright.proposers.templates.sizes import Sizes

Pooling = PoolStep | PoolBackwardStep


def gene_pool(step: Pooling) -> GenePool:
    return GenePool(
        (
            Gene("threads", (128, 256, 512), (256, 128, 512)),
            Gene("pair", (1, 2), (2, 1)),  # windows of a row for each thread
        )
    )


def describe(step: Pooling, genes: Genes) -> str:
    what = "maxima" if isinstance(step, PoolStep) else "gradients"
    kernel = "×".join(map(str, step.window.kernel))
    return f"{what} of {kernel} windows, {genes['pair']} for each thread"


def render(step: Pooling, genes: Genes, sizes: Sizes, graph: Graph, number: int) -> list[Kernel]:
    pen = Pen(genes=genes, sizes=sizes, graph=graph, step=number)
    window = step.window
    for name in ("planes", "height", "width"):
        pen.set(name, pen.size(getattr(step, name)))
    pen.set("tall", _made(f"height_{number}", window, 0))
    pen.set("broad", _made(f"width_{number}", window, 1))
    names = ("planes", "height", "width", "tall", "broad")
    constants = ", ".join(f"{name.upper()} = {name.upper()}_{number}" for name in names)
    lines = [f"constexpr int {constants};", f"const long long at = block * {genes['threads']}ll + threadIdx.x;"]
    if isinstance(step, PoolStep):
        work = f"planes_{number} * tall_{number} * ceil(broad_{number}, {genes['pair']})"
        lines += _forward(step, pen)
    elif _apart(window):
        cells = f"ceil(height_{number}, {window.stride[0]}) * ceil(width_{number}, {window.stride[1]})"
        work = f"planes_{number} * {cells}"
        lines += _cells(step, pen)
    else:
        work = f"planes_{number} * height_{number} * width_{number}"
        lines += _gathered(step, pen)
    body = "".join(f"  {line}\n" for line in lines)
    blocks = f"ceil({work}, {genes['threads']})"
    parameters = tuple(pen.parameters.values())
    return [Kernel(f"pool_{number}", parameters, body, pen.plan_lines, blocks, str(genes["threads"]))]


def _made(size: str, window: Window, axis: int) -> str:
    reach = window.dilation[axis] * (window.kernel[axis] - 1) + 1
    return f"({size} + {2 * window.padding[axis]} - {reach}) // {window.stride[axis]} + 1"


def _apart(window: Window) -> bool:
    """Windows that do not overlap and begin inside, so that each owns a cell of the image."""
    plain = window.padding == (0, 0) and window.dilation == (1, 1)
    return plain and all(k <= s for k, s in zip(window.kernel, window.stride, strict=True))


def _forward(step: PoolStep, pen: Pen) -> list[str]:
    (kh, kw), (sh, sw), (ph, pw), (dh, dw) = _parts(step.window)
    pair = pen.genes["pair"]
    whole = _apart(step.window) and (kh, kw) == (sh, sw) and int(pair) * sw in (2, 4)
    fits = f"int(width_{pen.step} % {int(pair) * sw} == 0)" if whole else "0"
    pen.set("whole", fits)  # a thread's windows are one vector of each row
    return [
        f"constexpr int EACH = {pair}, SHARES = (BROAD + EACH - 1) / EACH, SPAN = {int(pair) * sw if whole else 1};",
        "if (at >= static_cast<long long>(PLANES) * TALL * SHARES) return;",
        "const int share = at % SHARES, line = at / SHARES % TALL;",
        "const long long plane = at / SHARES / TALL;",
        f"const float* const from = {pen.pointer(step.input)} + plane * HEIGHT * WIDTH;",
        f"float* const to = {pen.pointer(step.output, written=True, read=False)} + (plane * TALL + line) * BROAD;",
        "float best[EACH];",
        "#pragma unroll",
        "for (int e = 0; e < EACH; ++e) best[e] = -INF;",
        f"if (WHOLE_{pen.step}) {{",
        "#pragma unroll",
        f"  for (int i = 0; i < {kh}; ++i) {{",
        "    alignas(16) float part[SPAN];",
        f"    load(part, from + (line * {sh} + i) * WIDTH + share * SPAN);",
        "#pragma unroll",
        f"    for (int j = 0; j < SPAN; ++j) best[j / {sw} % EACH] = most(best[j / {sw} % EACH], part[j]);",
        "  }",
        "} else {",
        "#pragma unroll",
        f"for (int i = 0; i < {kh}; ++i)",
        "#pragma unroll",
        "  for (int e = 0; e < EACH; ++e)",
        "#pragma unroll",
        f"    for (int j = 0; j < {kw}; ++j) {{",
        f"      const int y = line * {sh} - {ph} + i * {dh}, x = (share * EACH + e) * {sw} - {pw} + j * {dw};",
        "      const bool inside = y >= 0 && y < HEIGHT && x >= 0 && x < WIDTH;",
        "      if (inside) best[e] = most(best[e], from[y * WIDTH + x]);",
        "    }",
        "}",
        "#pragma unroll",
        "for (int e = 0; e < EACH; ++e)",
        "  if (share * EACH + e < BROAD) to[share * EACH + e] = best[e];",
    ]


def _cells(step: PoolBackwardStep, pen: Pen) -> list[str]:
    (kh, kw), (sh, sw), _, _ = _parts(step.window)
    return [
        f"constexpr int CELL = {sh}, DOWN = (HEIGHT + CELL - 1) / CELL, ACROSS = (WIDTH + {sw - 1}) / {sw};",
        "if (at >= static_cast<long long>(PLANES) * DOWN * ACROSS) return;",
        "const int column = at % ACROSS, line = at / ACROSS % DOWN;",
        "const long long plane = at / ACROSS / DOWN;",
        f"const int top = line * {sh}, left = column * {sw};",
        f"const float* const from = {pen.pointer(step.input)} + plane * HEIGHT * WIDTH;",
        f"float* const to = {pen.pointer(step.output, written=True, read=False)} + plane * HEIGHT * WIDTH;",
        "int found = -1;",
        "float best = 0.0f, given = 0.0f;",
        "if (line < TALL && column < BROAD) {",
        f"  given = {pen.pointer(step.gradient)}[(plane * TALL + line) * BROAD + column];",
        "#pragma unroll",
        f"  for (int i = 0; i < {kh * kw}; ++i) {{",
        f"    const float value = from[(top + i / {kw}) * WIDTH + left + i % {kw}];",
        f"    if (found < 0 || value > best || value != value) best = value, found = i / {kw} * {sw} + i % {kw};",
        "  }",
        "}",
        *(_pairs(pen) if sw == 2 else []),
        "#pragma unroll",
        f"for (int i = 0; i < {sh}; ++i)",
        "#pragma unroll",
        f"  for (int j = 0; j < {sw}; ++j)",
        "    if (top + i < HEIGHT && left + j < WIDTH)",
        f"      to[(top + i) * WIDTH + left + j] = i * {sw} + j == found ? given : 0.0f;",
    ]


def _pairs(pen: Pen) -> list[str]:
    """Rows of an even length take a cell's two elements in one store."""
    return [
        "if (WIDTH % 2 == 0) {",
        "#pragma unroll",
        "  for (int i = 0; i < HEIGHT - top && i < CELL; ++i) {",
        "    alignas(8) const float both[2] = {2 * i == found ? given : 0.0f, 2 * i + 1 == found ? given : 0.0f};",
        "    store(to + (top + i) * WIDTH + left, both);",
        "  }",
        "  return;",
        "}",
    ]


def _gathered(step: PoolBackwardStep, pen: Pen) -> list[str]:
    """Any window: an element looks at every window that it is in, and whether it is the first maximum there."""
    (kh, kw), (sh, sw), (ph, pw), (dh, dw) = _parts(step.window)
    return [
        "if (at >= static_cast<long long>(PLANES) * HEIGHT * WIDTH) return;",
        "const int x = at % WIDTH, y = at / WIDTH % HEIGHT;",
        "const long long plane = at / WIDTH / HEIGHT;",
        f"const float* const from = {pen.pointer(step.input)} + plane * HEIGHT * WIDTH;",
        f"const float* const given = {pen.pointer(step.gradient)} + plane * TALL * BROAD;",
        "float sum = 0.0f;",
        f"for (int i = 0; i < {kh}; ++i)",
        f"  for (int j = 0; j < {kw}; ++j) {{",
        f"    const int down = y + {ph} - i * {dh}, along = x + {pw} - j * {dw};",
        f"    if (down < 0 || along < 0 || down % {sh} || along % {sw}) continue;",
        f"    const int line = down / {sh}, column = along / {sw};",
        "    if (line >= TALL || column >= BROAD) continue;",
        "    int found = -1;",
        "    float best = 0.0f;",
        f"    for (int a = 0; a < {kh}; ++a)",
        f"      for (int b = 0; b < {kw}; ++b) {{",
        f"        const int v = line * {sh} - {ph} + a * {dh}, u = column * {sw} - {pw} + b * {dw};",
        "        if (v < 0 || v >= HEIGHT || u < 0 || u >= WIDTH) continue;",
        "        const float value = from[v * WIDTH + u];",
        "        if (found < 0 || value > best || value != value) best = value, found = v * WIDTH + u;",
        "      }",
        "    if (found == y * WIDTH + x) sum += given[line * BROAD + column];",
        "  }",
        f"{pen.pointer(step.output, written=True, read=False)}[at] = sum;",
    ]


def _parts(window: Window) -> tuple[tuple[int, int], tuple[int, int], tuple[int, int], tuple[int, int]]:
    return window.kernel, window.stride, window.padding, window.dilation
