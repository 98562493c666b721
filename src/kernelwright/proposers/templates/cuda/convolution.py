"""Renders convolutions of few channels directly, with the steps and the pooling after them, and their gradients."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from kernelwright.proposers.templates.cuda.kernels import Kernel
from kernelwright.proposers.templates.cuda.last import Last
from kernelwright.proposers.templates.cuda.pen import Pen
from kernelwright.proposers.templates.genes import Gene, GenePool, Genes
from kernelwright.proposers.templates.graph import CannotExpressError, Graph
from kernelwright.proposers.templates.patterns.heavy import ConvolutionStep, PoolStep
from kernelwright.proposers.templates.sizes import Sizes

MOST_TAPS = 25
SHARED_FLOATS = 8192  # of weights at a time


@dataclass(frozen=True)
class PooledConvolution:
    """A convolution whose elements nobody but a pooling reads."""

    convolution: ConvolutionStep
    pool: PoolStep
    pattern: ClassVar[str] = "convolution+pooling"


Convolving = ConvolutionStep | PooledConvolution


def gene_pool(step: Convolving) -> GenePool:
    genes = [Gene("threads", (64, 128, 256), (128, 256, 64))]
    if isinstance(step, PooledConvolution) or step.kind != "weight":
        genes.append(Gene("group", (1, 2, 4, 8), (4, 8, 2)))
    return GenePool(tuple(genes))


def describe(step: Convolving, genes: Genes) -> str:
    inner = step.convolution if isinstance(step, PooledConvolution) else step
    what = {"forward": "convolution", "input": "gradient of the input", "weight": "gradient of the weight"}[inner.kind]
    text = f"{what} by direct sums"
    if "group" in genes:
        text += f", {genes['group']} planes for each thread, weights in shared memory"
    if inner.last:
        text += ", the steps after it on each element"
    return text + (", pooled in registers" if isinstance(step, PooledConvolution) else "")


def render(step: Convolving, genes: Genes, sizes: Sizes, graph: Graph, number: int) -> list[Kernel]:
    pool = step.pool if isinstance(step, PooledConvolution) else None
    inner = step.convolution if isinstance(step, PooledConvolution) else step
    pen = Pen(genes=genes, sizes=sizes, graph=graph, step=number)
    for name in ("batch", "channels", "height", "width", "filters", "tall", "broad"):
        pen.set(name, pen.size(getattr(inner, name)))
    taps = inner.window.kernel[0] * inner.window.kernel[1]
    if taps > MOST_TAPS:
        raise CannotExpressError(f"{graph.task}: no CUDA template covers a convolution with {taps} taps")
    match inner.kind:
        case "forward":
            lines, blocks = _forward(inner, pool, pen)
        case "input":
            lines, blocks = _input(inner, pen)
        case _:
            lines, blocks = _weight(inner, pen)
    body = "".join(f"  {line}\n" for line in [*_constants(inner, pen), *lines])
    parameters, threads = tuple(pen.parameters.values()), str(genes["threads"])
    return [Kernel(f"convolution_{number}", parameters, body, pen.plan_lines, blocks, threads)]


def _constants(step: ConvolutionStep, pen: Pen) -> list[str]:
    names = ("batch", "channels", "height", "width", "filters", "tall", "broad")
    sizes = ", ".join(f"{name.upper()} = {name.upper()}_{pen.step}" for name in names)
    (kh, kw), (sh, sw), (ph, pw), (dh, dw) = _window(step)
    return [
        f"constexpr int {sizes};",
        f"constexpr int KH = {kh}, KW = {kw}, SH = {sh}, SW = {sw}, PH = {ph}, PW = {pw}, DH = {dh}, DW = {dw};",
        f"constexpr int TAPS = KH * KW, THREADS = {pen.genes['threads']};",
    ]


def _window(step: ConvolutionStep) -> tuple[tuple[int, int], tuple[int, int], tuple[int, int], tuple[int, int]]:
    return step.window.kernel, step.window.stride, step.window.padding, step.window.dilation


def _weights(pen: Pen, weight: str, outer: str, inner: str, at: str) -> list[str]:
    """GROUP planes of `outer` by CHUNK planes of `inner`, beginning at `first`, in shared memory."""
    return [
        f"constexpr int MOST = {SHARED_FLOATS} / (GROUP * TAPS), CHUNK = {inner} < MOST ? {inner} : MOST;",
        "__shared__ float weights[CHUNK][TAPS][GROUP];",
        f"for (int first = 0; first < {inner}; first += CHUNK) {{",
        "  __syncthreads();",
        "  for (int i = threadIdx.x; i < CHUNK * TAPS * GROUP; i += THREADS) {",
        "    const int g = group * GROUP + i / TAPS / CHUNK, d = i / TAPS % CHUNK + first, t = i % TAPS;",
        f"    const bool inside = g < {outer} && d < {inner};",
        f"    weights[d - first][t][g - group * GROUP] = inside ? {weight}[{at}] : 0.0f;",
        "  }",
        "  __syncthreads();",
    ]


def _forward(step: ConvolutionStep, pool: PoolStep | None, pen: Pen) -> tuple[list[str], str]:
    n, genes = pen.step, pen.genes
    image, weight = pen.pointer(step.first), pen.pointer(step.second)
    (qh, qw), (rh, rw) = (pool.window.kernel, pool.window.stride) if pool else ((1, 1), (1, 1))
    down, across = f"(TALL - {qh}) / {rh} + 1", f"(BROAD - {qw}) / {rw} + 1"
    last = Last(pen, step.last, step.output)
    lines = [
        f"constexpr int GROUP = {genes['group']}, GROUPS = (FILTERS + GROUP - 1) / GROUP;",
        f"constexpr int DOWN = {down}, ACROSS = {across}, PLACES = DOWN * ACROSS, QH = {qh}, QW = {qw};",
        "constexpr long long COLS = static_cast<long long>(TALL) * BROAD;",
        "const int group = block % GROUPS;",
        "const long long at = static_cast<long long>(block / GROUPS) * THREADS + threadIdx.x;",
        "const bool mine = at < static_cast<long long>(BATCH) * PLACES;",
        "const int b = at / PLACES, place = at % PLACES;",
        f"const int down = place / ACROSS * {rh}, across = place % ACROSS * {rw};",
        "float sum[QH * QW][GROUP] = {};",
        *_weights(pen, weight, "FILTERS", "CHANNELS", "(static_cast<long long>(g) * CHANNELS + d) * TAPS + t"),
        "  if (mine)",
        "    for (int d = 0; d < CHUNK && first + d < CHANNELS; ++d) {",
        "      const long long number = static_cast<long long>(b) * CHANNELS + first + d;",
        f"      const float* const plane = {image} + number * HEIGHT * WIDTH;",
        "#pragma unroll",
        "      for (int q = 0; q < QH * QW; ++q)",
        "#pragma unroll",
        "        for (int t = 0; t < TAPS; ++t) {",
        "          const int y = (down + q / QW) * SH - PH + t / KW * DH;",
        "          const int x = (across + q % QW) * SW - PW + t % KW * DW;",
        "          const bool inside = y >= 0 && y < HEIGHT && x >= 0 && x < WIDTH;",
        "          const float value = inside ? plane[y * WIDTH + x] : 0.0f;",
        "#pragma unroll",
        "          for (int g = 0; g < GROUP; ++g) sum[q][g] += value * weights[d][t][g];",
        "        }",
        "    }",
        "}",
        "if (!mine) return;",
        *last.singles(),
        "#pragma unroll",
        "for (int g = 0; g < GROUP; ++g) {",
        "  if (group * GROUP + g >= FILTERS) break;",
        "  const long long row = static_cast<long long>(b) * FILTERS + group * GROUP + g;",
        *(["  float best = -INF;"] if pool else []),
        "#pragma unroll",
        "  for (int q = 0; q < QH * QW; ++q) {",
        "    const long long c = (down + q / QW) * BROAD + across + q % QW;",
        "    const float product = sum[q][g];",
    ]
    if pool:
        steps, value = last.value()
        lines += [*(f"    {line}" for line in steps), f"    best = most(best, {value});", "  }"]
        lines.append(f"  {pen.pointer(pool.output, written=True, read=False)}[row * PLACES + place] = best;")
    else:
        lines += [*(f"    {line}" for line in last.stores()), "  }"]
    size = f"((tall_{n} - {qh}) // {rh} + 1) * ((broad_{n} - {qw}) // {rw} + 1)"
    blocks = f"ceil(batch_{n} * {size}, {genes['threads']}) * ceil(filters_{n}, {genes['group']})"
    return [*lines, "  (void)COLS;", "}"], blocks


def _input(step: ConvolutionStep, pen: Pen) -> tuple[list[str], str]:
    n, genes = pen.step, pen.genes
    given, weight = pen.pointer(step.first), pen.pointer(step.second)
    target = pen.pointer(step.output, written=True, read=False)
    lines = [
        f"constexpr int GROUP = {genes['group']}, GROUPS = (CHANNELS + GROUP - 1) / GROUP, PLACES = HEIGHT * WIDTH;",
        "const int group = block % GROUPS;",
        "const long long at = static_cast<long long>(block / GROUPS) * THREADS + threadIdx.x;",
        "const bool mine = at < static_cast<long long>(BATCH) * PLACES;",
        "const int b = at / PLACES, y = at % PLACES / WIDTH, x = at % WIDTH;",
        "float sum[GROUP] = {};",
        *_weights(pen, weight, "CHANNELS", "FILTERS", "(static_cast<long long>(d) * CHANNELS + g) * TAPS + t"),
        "  if (mine)",
        "    for (int d = 0; d < CHUNK && first + d < FILTERS; ++d) {",
        "      const long long number = static_cast<long long>(b) * FILTERS + first + d;",
        f"      const float* const plane = {given} + number * TALL * BROAD;",
        "#pragma unroll",
        "      for (int t = 0; t < TAPS; ++t) {",
        "        const int v = y + PH - t / KW * DH, u = x + PW - t % KW * DW;",
        "        if (v < 0 || u < 0 || v % SH || u % SW || v / SH >= TALL || u / SW >= BROAD) continue;",
        "        const float value = plane[v / SH * BROAD + u / SW];",
        "#pragma unroll",
        "        for (int g = 0; g < GROUP; ++g) sum[g] += value * weights[d][t][g];",
        "      }",
        "    }",
        "}",
        "if (!mine) return;",
        "#pragma unroll",
        "for (int g = 0; g < GROUP; ++g) {",
        "  const long long channel = group * GROUP + g;",
        "  if (channel < CHANNELS)",
        f"    {target}[(b * static_cast<long long>(CHANNELS) + channel) * PLACES + y * WIDTH + x] = sum[g];",
        "}",
    ]
    blocks = f"ceil(batch_{n} * height_{n} * width_{n}, {genes['threads']}) * ceil(channels_{n}, {genes['group']})"
    return lines, blocks


def _weight(step: ConvolutionStep, pen: Pen) -> tuple[list[str], str]:
    """A block for each filter and channel; its threads go over all places of all images."""
    n = pen.step
    given, image = pen.pointer(step.first), pen.pointer(step.second)
    target = pen.pointer(step.output, written=True, read=False)
    lines = [
        "__shared__ float slots[2][32];",
        "const int filter = block / CHANNELS, channel = block % CHANNELS;",
        "float sum[TAPS] = {};",
        "for (long long at = threadIdx.x; at < static_cast<long long>(BATCH) * TALL * BROAD; at += THREADS) {",
        "  const int b = at / (TALL * BROAD), place = at % (TALL * BROAD);",
        "  const int down = place / BROAD, across = place % BROAD;",
        f"  const float value = {given}[(static_cast<long long>(b) * FILTERS + filter) * TALL * BROAD + place];",
        f"  const float* const plane = {image} + (static_cast<long long>(b) * CHANNELS + channel) * HEIGHT * WIDTH;",
        "#pragma unroll",
        "  for (int t = 0; t < TAPS; ++t) {",
        "    const int y = down * SH - PH + t / KW * DH, x = across * SW - PW + t % KW * DW;",
        "    if (y >= 0 && y < HEIGHT && x >= 0 && x < WIDTH) sum[t] += value * plane[y * WIDTH + x];",
        "  }",
        "}",
        "#pragma unroll",
        "for (int t = 0; t < TAPS; ++t) {",
        "  const float whole = over_team<Sum, THREADS>(sum[t], slots[t % 2]);",
        f"  if (threadIdx.x == 0) {target}[static_cast<long long>(block) * TAPS + t] = whole;",
        "}",
    ]
    return lines, f"filters_{n} * channels_{n}"
