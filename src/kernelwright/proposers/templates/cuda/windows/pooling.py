"""Renders maximum pooling and its backward: vectors of windows where rows are whole windows, else one by one."""

from __future__ import annotations

from kernelwright.proposers.templates.cuda.kernels import Kernel, KernelWriter
from kernelwright.proposers.templates.genes import Gene, GenePool, Genes
from kernelwright.proposers.templates.graph import Graph, Window
from kernelwright.proposers.templates.patterns.heavy import PoolBackwardStep, PoolStep
from kernelwright.proposers.templates.sizes import Sizes

Pooling = PoolStep | PoolBackwardStep


def apart(window: Window) -> bool:
    """Windows that do not overlap and begin inside, so that each has a cell of the image to itself."""
    plain = window.padding == (0, 0) and window.dilation == (1, 1)
    return plain and all(k <= s for k, s in zip(window.kernel, window.stride, strict=True))


def one_by_one(step: Pooling, code: KernelWriter) -> list[str]:
    if isinstance(step, PoolStep):
        return _maximum(step, code)
    return _cell(step, code) if apart(step.window) else _gathered(step, code)


def _maximum(step: PoolStep, code: KernelWriter) -> list[str]:
    (kh, kw), (sh, sw), (ph, pw), (dh, dw) = _parts(step.window)
    return [
        "const Index row = at / BROAD, plane = row / TALL;",
        "const int column = at - row * BROAD, line = row - plane * TALL;",
        f"const float* const from = {code.pointer(step.input)} + plane * HEIGHT * WIDTH;",
        "float best = -INF;",
        "#pragma unroll",
        f"for (int i = 0; i < {kh}; ++i)",
        "#pragma unroll",
        f"  for (int j = 0; j < {kw}; ++j) {{",
        f"    const int y = line * {sh} - {ph} + i * {dh}, x = column * {sw} - {pw} + j * {dw};",
        "    if (y >= 0 && y < HEIGHT && x >= 0 && x < WIDTH) best = most(best, from[y * WIDTH + x]);",
        "  }",
        f"{code.pointer(step.output, written=True, read=False)}[at] = best;",
    ]


def _cell(step: PoolBackwardStep, code: KernelWriter) -> list[str]:
    (kh, kw), (sh, sw), _, _ = _parts(step.window)
    return [
        f"constexpr int DOWN = (HEIGHT + {sh - 1}) / {sh}, ACROSS = (WIDTH + {sw - 1}) / {sw};",
        "const Index row = at / ACROSS, plane = row / DOWN;",
        "const int column = at - row * ACROSS, line = row - plane * DOWN;",
        f"const int top = line * {sh}, left = column * {sw};",
        f"const float* const from = {code.pointer(step.input)} + plane * HEIGHT * WIDTH;",
        f"float* const to = {code.pointer(step.output, written=True, read=False)} + plane * HEIGHT * WIDTH;",
        "int found = -1;",
        "float best = 0.0f, given = 0.0f;",
        "if (line < TALL && column < BROAD) {",
        f"  given = {code.pointer(step.gradient)}[(plane * TALL + line) * BROAD + column];",
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


def _gathered(step: PoolBackwardStep, code: KernelWriter) -> list[str]:
    """Any window: an element looks at every window that it is in, and whether it is the first maximum there."""
    (kh, kw), (sh, sw), (ph, pw), (dh, dw) = _parts(step.window)
    return [
        "const Index row = at / WIDTH, plane = row / HEIGHT;",
        "const int x = at - row * WIDTH, y = row - plane * HEIGHT;",
        f"const float* const from = {code.pointer(step.input)} + plane * HEIGHT * WIDTH;",
        f"const float* const given = {code.pointer(step.gradient)} + plane * TALL * BROAD;",
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
        f"{code.pointer(step.output, written=True, read=False)}[at] = sum;",
    ]


def _parts(window: Window) -> tuple[tuple[int, int], tuple[int, int], tuple[int, int], tuple[int, int]]:
    return window.kernel, window.stride, window.padding, window.dilation


def gene_pool(step: Pooling) -> GenePool:
    return GenePool(
        (
            Gene("threads", (64, 128, 256, 512), (256, 128, 512)),
            Gene("pair", (1, 2, 4), (2, 4, 1)),  # windows of a line for each thread
            Gene("lines", (1, 2, 4, 8), (2, 1, 4)),  # of windows for each thread, all read before any is worked on
            Gene("stream", (False, True), (False, True)),
        )
    )


def describe(step: Pooling, genes: Genes) -> str:
    what = "maxima" if isinstance(step, PoolStep) else "gradients"
    kernel = "×".join(map(str, step.window.kernel))
    text = f"{what} of {kernel} windows, {genes['lines']} times {genes['pair']} for each thread"
    return text + (", streaming stores" if genes["stream"] else "")


def render(step: Pooling, genes: Genes, sizes: Sizes, graph: Graph, number: int) -> list[Kernel]:
    code = KernelWriter(genes=genes, sizes=sizes, graph=graph, step=number)
    window, n = step.window, number
    for name in ("planes", "height", "width"):
        code.set(name, code.size(getattr(step, name)))
    code.set("tall", _made(f"height_{n}", window, 0))
    code.set("broad", _made(f"width_{n}", window, 1))
    (sh, sw) = window.stride
    code.set("each", f"widest({genes['pair']}, broad_{n})")
    # Lines are whole windows; what a backward must clear beside them is nothing.
    whole = f"width_{n} == broad_{n} * {sw}" if apart(window) and window.kernel == window.stride else "False"
    if isinstance(step, PoolBackwardStep):
        whole += f" and height_{n} == tall_{n} * {sh}"
    code.set("whole", f"int({whole})")
    items = _items(step, number)
    code.set("items", f"planes_{n} * tall_{n} * broad_{n} // each_{n} if whole_{n} else {items}")
    code.define(f"INDEX_{n}", f"'int' if planes_{n} * height_{n} * width_{n} < 2 ** 31 else 'long long'")
    names = ("height", "width", "tall", "broad", "each")
    constants = ", ".join(f"{name.upper()} = {name.upper()}_{n}" for name in names)
    lines = [
        f"constexpr int {constants}, THREADS = {genes['threads']}, LINES = {genes['lines']};",
        f"using Index = INDEX_{n};",
        f"constexpr Index ITEMS = ITEMS_{n};",
        "const Index first = static_cast<Index>(block) * (THREADS * LINES) + threadIdx.x;",
        "(void)HEIGHT, (void)TALL, (void)EACH;",
        f"#if WHOLE_{n}",
        *(_maxima(step, code) if isinstance(step, PoolStep) else _gradients(step, code)),
        "#else",
        "for (int u = 0; u < LINES; ++u) {",
        "  const Index at = first + u * THREADS;",
        "  if (at >= ITEMS) return;",
        *(f"  {line}" for line in one_by_one(step, code)),
        "}",
        "#endif",
    ]
    body = "".join(f"  {line}\n" for line in lines)
    blocks = f"ceil(items_{n}, {int(genes['threads']) * int(genes['lines'])})"
    parameters = tuple(code.parameters.values())
    return [Kernel(f"pool_{n}", parameters, body, code.plan_lines, blocks, str(genes["threads"]))]


def _items(step: Pooling, n: int) -> str:
    (sh, sw) = step.window.stride
    if isinstance(step, PoolStep):
        return f"planes_{n} * tall_{n} * broad_{n}"
    if apart(step.window):
        return f"planes_{n} * ceil(height_{n}, {sh}) * ceil(width_{n}, {sw})"
    return f"planes_{n} * height_{n} * width_{n}"


def _made(size: str, window: Window, axis: int) -> str:
    reach = window.dilation[axis] * (window.kernel[axis] - 1) + 1
    return f"({size} + {2 * window.padding[axis]} - {reach}) // {window.stride[axis]} + 1"


def _windows(step: Pooling, code: KernelWriter) -> list[str]:
    """`part`: EACH windows at each of the thread's LINES, read as vectors, all of them before any is needed."""
    (kh, kw) = step.window.kernel
    return [
        f"constexpr int SPAN = EACH * {kw}, VECTOR = SPAN % 4 == 0 ? 4 : SPAN % 2 == 0 ? 2 : 1, SHARES = BROAD / EACH;",
        f"alignas(16) float part[LINES][{kh}][SPAN];",
        "const auto place = [](const Index at) {  // of the first element of the windows in the image",
        "  const Index line = at / SHARES;",
        f"  const Index row = HEIGHT == TALL * {kh} ? line * {kh} : line / TALL * HEIGHT + line % TALL * {kh};",
        "  return row * WIDTH + (at - line * SHARES) * SPAN;",
        "};",
        "#pragma unroll",
        "for (int u = 0; u < LINES; ++u)",
        "  if (first + u * THREADS < ITEMS) {",
        f"    const float* const from = {code.pointer(step.input)} + place(first + u * THREADS);",
        "#pragma unroll",
        f"    for (int i = 0; i < {kh}; ++i)",
        "#pragma unroll",
        "      for (int v = 0; v < SPAN; v += VECTOR)",
        "        load(reinterpret_cast<float (&)[VECTOR]>(part[u][i][v]), from + i * WIDTH + v);",
        "  }",
    ]


def _maxima(step: PoolStep, code: KernelWriter) -> list[str]:
    (kh, kw) = step.window.kernel
    to = code.pointer(step.output, written=True, read=False)
    return [
        *_windows(step, code),
        "#pragma unroll",
        "for (int u = 0; u < LINES; ++u)",
        "  if (first + u * THREADS < ITEMS) {",
        "    alignas(16) float best[EACH];",
        "#pragma unroll",
        "    for (int e = 0; e < EACH; ++e) best[e] = -INF;",
        "#pragma unroll",
        f"    for (int i = 0; i < {kh}; ++i)",
        "#pragma unroll",
        f"      for (int j = 0; j < SPAN; ++j) best[j / {kw}] = most(best[j / {kw}], part[u][i][j]);",
        f"    {_store(code)}({to} + (first + u * THREADS) * EACH, best);",
        "  }",
    ]


def _gradients(step: PoolBackwardStep, code: KernelWriter) -> list[str]:
    """Each window's gradient goes to its first maximum; the cell is all of the window."""
    (kh, kw) = step.window.kernel
    to = code.pointer(step.output, written=True, read=False)
    return [
        "alignas(16) float given[LINES][EACH];",
        "#pragma unroll",
        "for (int u = 0; u < LINES; ++u)",
        "  if (first + u * THREADS < ITEMS)",
        f"    load(given[u], {code.pointer(step.gradient)} + (first + u * THREADS) * EACH);",
        *_windows(step, code),
        "#pragma unroll",
        "for (int u = 0; u < LINES; ++u)",
        "  if (first + u * THREADS < ITEMS) {",
        "    int found[EACH];",
        "#pragma unroll",
        "    for (int e = 0; e < EACH; ++e) {",
        f"      float best = part[u][0][e * {kw}];",
        "      found[e] = 0;",
        "#pragma unroll",
        f"      for (int i = 1; i < {kh * kw}; ++i) {{",
        f"        const float value = part[u][i / {kw}][e * {kw} + i % {kw}];",
        "        if (value > best || value != value) best = value, found[e] = i;",
        "      }",
        "    }",
        f"    float* const to = {to} + place(first + u * THREADS);",
        "#pragma unroll",
        f"    for (int i = 0; i < {kh}; ++i)",
        "#pragma unroll",
        "      for (int v = 0; v < SPAN / VECTOR; ++v) {",
        "        alignas(16) float back[VECTOR];",
        "#pragma unroll",
        "        for (int j = 0; j < VECTOR; ++j) {",
        f"          const int e = (v * VECTOR + j) / {kw}, own = i * {kw} + (v * VECTOR + j) % {kw};",
        "          back[j] = found[e] == own ? given[u][e] : 0.0f;",
        "        }",
        f"        {_store(code)}(to + i * WIDTH + v * VECTOR, back);",
        "      }",
        "  }",
    ]


def _store(code: KernelWriter) -> str:
    return "stream" if code.genes["stream"] else "store"
