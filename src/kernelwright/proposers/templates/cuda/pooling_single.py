"""Pooling one window, cell or element at a time: any window at any size."""

from __future__ import annotations

from kernelwright.proposers.templates.cuda.pen import Pen
from kernelwright.proposers.templates.graph import Window
from kernelwright.proposers.templates.patterns.heavy import PoolBackwardStep, PoolStep

Pooling = PoolStep | PoolBackwardStep


def apart(window: Window) -> bool:
    """Windows that do not overlap and begin inside, so that each owns a cell of the image."""
    plain = window.padding == (0, 0) and window.dilation == (1, 1)
    return plain and all(k <= s for k, s in zip(window.kernel, window.stride, strict=True))


def one_by_one(step: Pooling, pen: Pen) -> list[str]:
    if isinstance(step, PoolStep):
        return _maximum(step, pen)
    return _cell(step, pen) if apart(step.window) else _gathered(step, pen)


def _maximum(step: PoolStep, pen: Pen) -> list[str]:
    (kh, kw), (sh, sw), (ph, pw), (dh, dw) = _parts(step.window)
    return [
        "const Index row = at / BROAD, plane = row / TALL;",
        "const int column = at - row * BROAD, line = row - plane * TALL;",
        f"const float* const from = {pen.pointer(step.input)} + plane * HEIGHT * WIDTH;",
        "float best = -INF;",
        "#pragma unroll",
        f"for (int i = 0; i < {kh}; ++i)",
        "#pragma unroll",
        f"  for (int j = 0; j < {kw}; ++j) {{",
        f"    const int y = line * {sh} - {ph} + i * {dh}, x = column * {sw} - {pw} + j * {dw};",
        "    if (y >= 0 && y < HEIGHT && x >= 0 && x < WIDTH) best = most(best, from[y * WIDTH + x]);",
        "  }",
        f"{pen.pointer(step.output, written=True, read=False)}[at] = best;",
    ]


def _cell(step: PoolBackwardStep, pen: Pen) -> list[str]:
    (kh, kw), (sh, sw), _, _ = _parts(step.window)
    return [
        f"constexpr int DOWN = (HEIGHT + {sh - 1}) / {sh}, ACROSS = (WIDTH + {sw - 1}) / {sw};",
        "const Index row = at / ACROSS, plane = row / DOWN;",
        "const int column = at - row * ACROSS, line = row - plane * DOWN;",
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
        "#pragma unroll",
        f"for (int i = 0; i < {sh}; ++i)",
        "#pragma unroll",
        f"  for (int j = 0; j < {sw}; ++j)",
        "    if (top + i < HEIGHT && left + j < WIDTH)",
        f"      to[(top + i) * WIDTH + left + j] = i * {sw} + j == found ? given : 0.0f;",
    ]


def _gathered(step: PoolBackwardStep, pen: Pen) -> list[str]:
    """Any window: an element looks at every window that it is in, and whether it is the first maximum there."""
    (kh, kw), (sh, sw), (ph, pw), (dh, dw) = _parts(step.window)
    return [
        "const Index row = at / WIDTH, plane = row / HEIGHT;",
        "const int x = at - row * WIDTH, y = row - plane * HEIGHT;",
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
