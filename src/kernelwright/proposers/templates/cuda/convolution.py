"""Renders convolutions of few channels directly, with the steps and the pooling after them, and their gradients."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from kernelwright.proposers.templates.cuda.convolution_gradients import input_gradient, weight_gradient
from kernelwright.proposers.templates.cuda.convolution_parts import constants, shared_weights
from kernelwright.proposers.templates.cuda.kernels import Kernel
from kernelwright.proposers.templates.cuda.last import Last
from kernelwright.proposers.templates.cuda.pen import Pen
from kernelwright.proposers.templates.genes import Gene, GenePool, Genes
from kernelwright.proposers.templates.graph import CannotExpressError, Graph
from kernelwright.proposers.templates.patterns.heavy import ConvolutionStep, PoolStep
from kernelwright.proposers.templates.patterns.rows import RowProgram, Span
from kernelwright.proposers.templates.sizes import Sizes

MOST_TAPS = 25


@dataclass(frozen=True)
class PooledConvolution:
    """A convolution whose elements nobody but a pooling reads."""

    convolution: ConvolutionStep
    pool: PoolStep
    pattern: ClassVar[str] = "convolution+pooling"


Convolving = ConvolutionStep | PooledConvolution


def gene_pool(step: Convolving) -> GenePool:
    threads = Gene("threads", (64, 128, 256), (128, 256, 64))
    if isinstance(step, ConvolutionStep) and step.kind == "weight":
        return GenePool((threads, Gene("blocks", (1, 2, 4, 8), (4, 8, 2))))
    if isinstance(step, ConvolutionStep) and step.kind == "input":
        return GenePool((threads, Gene("group", (1, 2, 4, 8), (4, 8, 2)), Gene("shares", (1, 2, 4, 8), (4, 2, 8))))
    return GenePool((threads, Gene("group", (1, 2, 4, 8, 16), (4, 8, 2))))


def describe(step: Convolving, genes: Genes) -> str:
    inner = step.convolution if isinstance(step, PooledConvolution) else step
    what = {"forward": "convolution", "input": "gradient of the input", "weight": "gradient of the weight"}[inner.kind]
    text = f"{what} by direct sums"
    if "group" in genes:
        text += f", {genes['group']} planes for each thread, weights in shared memory"
    if "shares" in genes:
        text += f", filters in {genes['shares']} shares"
    if "blocks" in genes:
        text += f", images split until there are {genes['blocks']} blocks for each multiprocessor"
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
            lines, blocks = input_gradient(inner, pen)
        case _:
            lines, blocks = weight_gradient(inner, pen)
    body = "".join(f"  {line}\n" for line in [*constants(inner, pen), *lines])
    parameters, threads = tuple(pen.parameters.values()), str(genes["threads"])
    return [Kernel(f"convolution_{number}", parameters, body, pen.plan_lines, blocks, threads)]


class _RowsEarly(Last):
    """What the last steps read once for each plane is read before the sums begin."""

    def __init__(self, pen: Pen, program: RowProgram | None, output: str) -> None:
        self.early: dict[int, str] = {}
        super().__init__(pen, program, output)

    def _loaded(self, place: int) -> str:
        text = super()._loaded(place)
        if self.writer.instruction(place).span != Span.row:
            return text
        self.early[place] = text
        return f"early{place}[g]"

    def loads(self) -> list[str]:
        lines = [f"float early{place}[GROUP];" for place in self.early]
        if lines:
            lines += ["#pragma unroll", "for (int g = 0; g < GROUP; ++g) {"]
            lines.append("  const Index row = b * FILTERS + group * GROUP + g;")
            for place, text in self.early.items():
                lines.append(f"  if (mine && group * GROUP + g < FILTERS) early{place}[g] = {text};")
            lines.append("}")
        return lines


def _forward(step: ConvolutionStep, pool: PoolStep | None, pen: Pen) -> tuple[list[str], str]:
    """All that a thread needs of the first channel is asked for before the one barrier, weights included."""
    n, genes = pen.step, pen.genes
    (qh, qw), (rh, rw) = (pool.window.kernel, pool.window.stride) if pool else ((1, 1), (1, 1))
    last = _RowsEarly(pen, step.last, step.output)
    stores = _pooled(last, pen, pool) if pool else _stored(last)
    lines = [
        f"constexpr int GROUP = {genes['group']}, GROUPS = (FILTERS + GROUP - 1) / GROUP;",
        f"constexpr int DOWN = (TALL - {qh}) / {rh} + 1, ACROSS = (BROAD - {qw}) / {rw} + 1, PLACES = DOWN * ACROSS;",
        f"constexpr int QH = {qh}, QW = {qw}, COLS = TALL * BROAD;",
        "constexpr int PATCH_H = (QH - 1) * SH + (KH - 1) * DH + 1, PATCH_W = (QW - 1) * SW + (KW - 1) * DW + 1;",
        "(void)COLS;",
        "const int group = block % GROUPS;",
        "const Index at = static_cast<Index>(block / GROUPS) * THREADS + threadIdx.x;",
        "const bool mine = at < static_cast<Index>(BATCH) * PLACES;",
        "const Index b = at / PLACES;",
        "const int place = at - b * PLACES;",
        f"const int down = place / ACROSS * {rh}, across = place % ACROSS * {rw};",
        "float patch[PATCH_H][PATCH_W];",
        "const auto read = [&](const int channel) {",
        f"  const float* const plane = {pen.pointer(step.first)} + (b * CHANNELS + channel) * (HEIGHT * WIDTH);",
        "#pragma unroll",
        "  for (int i = 0; i < PATCH_H * PATCH_W; ++i) {",
        "    const int y = down * SH - PH + i / PATCH_W, x = across * SW - PW + i % PATCH_W;",
        "    const bool inside = mine && y >= 0 && y < HEIGHT && x >= 0 && x < WIDTH;",
        "    patch[i / PATCH_W][i % PATCH_W] = inside ? plane[y * WIDTH + x] : 0.0f;",
        "  }",
        "};",
        "read(0);",
        *last.loads(),
        "float sum[QH * QW][GROUP] = {};",
        *shared_weights(pen.pointer(step.second), "FILTERS", "CHANNELS", "(g * CHANNELS + d) * TAPS + t"),
        "  for (int d = 0; d < CHUNK && first + d < CHANNELS; ++d) {",
        "    float now[PATCH_H][PATCH_W];",
        "#pragma unroll",
        "    for (int i = 0; i < PATCH_H; ++i) copy(now[i], patch[i]);",
        "    if (first + d + 1 < CHANNELS) read(first + d + 1);",
        "#pragma unroll",
        "    for (int t = 0; t < TAPS; ++t)",
        "#pragma unroll",
        "      for (int g = 0; g < GROUP; ++g)",
        "#pragma unroll",
        "        for (int q = 0; q < QH * QW; ++q)",
        "          sum[q][g] += now[q / QW * SH + t / KW * DH][q % QW * SW + t % KW * DW] * weights[d][t][g];",
        "  }",
        "}",
        "if (!mine) return;",
        *last.singles(),
        "#pragma unroll",
        "for (int g = 0; g < GROUP; ++g) {",
        "  if (group * GROUP + g >= FILTERS) break;",
        "  const Index row = b * FILTERS + group * GROUP + g;",
        *(f"  {line}" for line in stores),
        "}",
    ]
    size = f"((tall_{n} - {qh}) // {rh} + 1) * ((broad_{n} - {qw}) // {rw} + 1)"
    blocks = f"ceil(batch_{n} * {size}, {genes['threads']}) * ceil(filters_{n}, {genes['group']})"
    return lines, blocks


_PLACES = [
    "#pragma unroll",
    "for (int q = 0; q < QH * QW; ++q) {",
    "  const int c = (down + q / QW) * BROAD + across + q % QW;",
    "  const float product = sum[q][g];",
]


def _stored(last: Last) -> list[str]:
    return [*_PLACES, *(f"  {line}" for line in last.stores()), "}"]


def _pooled(last: Last, pen: Pen, pool: PoolStep) -> list[str]:
    steps, value = last.value()
    target = pen.pointer(pool.output, written=True, read=False)
    inner = [*_PLACES, *(f"  {line}" for line in steps), f"  best = most(best, {value});", "}"]
    return ["float best = -INF;", *inner, f"{target}[row * PLACES + place] = best;"]
