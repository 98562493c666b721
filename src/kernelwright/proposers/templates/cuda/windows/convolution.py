"""Renders convolutions of few channels directly, with the steps and the pooling after them, and their gradients."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from typing import ClassVar

from kernelwright.proposers.templates.cuda.contractions import contraction
from kernelwright.proposers.templates.cuda.contractions.plain_convolution import contraction_of
from kernelwright.proposers.templates.cuda.epilogue import Epilogue
from kernelwright.proposers.templates.cuda.kernels import Kernel, KernelWriter
from kernelwright.proposers.templates.genes import Gene, GenePool, Genes
from kernelwright.proposers.templates.graph import Graph
from kernelwright.proposers.templates.patterns.heavy import ConvolutionStep, PoolStep
from kernelwright.proposers.templates.patterns.rows import RowProgram, Span
from kernelwright.proposers.templates.sizes import Sizes

SHARED_FLOATS = 8192  # of weights at a time
LARGE = 2**26  # multiplications, for which a pooling behind a convolution is a step of its own


def constants(step: ConvolutionStep, code: KernelWriter) -> list[str]:
    n = code.step
    names = ("batch", "channels", "height", "width", "filters", "tall", "broad")
    sizes = ", ".join(f"{name.upper()} = {name.upper()}_{n}" for name in names)
    window = step.window
    (kh, kw), (sh, sw), (ph, pw), (dh, dw) = window.kernel, window.stride, window.padding, window.dilation
    image, made = f"channels_{n} * height_{n} * width_{n}", f"filters_{n} * tall_{n} * broad_{n}"
    code.define(f"INDEX_{n}", f"'int' if batch_{n} * max({image}, {made}) < 2 ** 31 else 'long long'")
    return [
        f"constexpr int {sizes};",
        f"using Index = INDEX_{n};",
        f"constexpr int KH = {kh}, KW = {kw}, SH = {sh}, SW = {sw}, PH = {ph}, PW = {pw}, DH = {dh}, DW = {dw};",
        f"constexpr int TAPS = KH * KW, THREADS = {code.genes['threads']};",
    ]


def shared_weights(weight: str, outer: str, inner: str, at: str) -> list[str]:
    """Opens a loop over `inner` planes, CHUNK at a time, with those of GROUP planes of `outer` in shared memory."""
    return [
        f"constexpr int MOST = {SHARED_FLOATS} / (GROUP * TAPS), CHUNK = {inner} < MOST ? {inner} : MOST;",
        "__shared__ __align__(16) float weights[CHUNK][TAPS][GROUP];",
        f"for (int first = 0; first < {inner}; first += CHUNK) {{",
        "  if (first) __syncthreads();",
        "  for (int i = threadIdx.x; i < CHUNK * TAPS * GROUP; i += THREADS) {",
        "    const int g = group * GROUP + i / TAPS / CHUNK, d = i / TAPS % CHUNK + first, t = i % TAPS;",
        f"    const bool inside = g < {outer} && d < {inner};",
        f"    weights[d - first][t][g - group * GROUP] = inside ? {weight}[{at}] : 0.0f;",
        "  }",
        "  __syncthreads();",
    ]


def input_gradient(step: ConvolutionStep, code: KernelWriter) -> tuple[list[str], str]:
    """A block has SHARES threads for each place, each with its share of the filters."""
    n, genes = code.step, code.genes
    code.set("group", f"min({genes['group']}, channels_{n})")
    target = code.pointer(step.output, written=True, read=False)
    lines = [
        f"constexpr int GROUP = GROUP_{n}, GROUPS = (CHANNELS + GROUP - 1) / GROUP, PLACES = HEIGHT * WIDTH;",
        f"constexpr int SHARES = {genes['shares']}, EACH = THREADS / SHARES;",
        "__shared__ float room[SHARES][GROUP][EACH];",
        "const int group = block % GROUPS, share = threadIdx.x / EACH;",
        "const Index at = static_cast<Index>(block / GROUPS) * EACH + threadIdx.x % EACH;",
        "const bool mine = at < static_cast<Index>(BATCH) * PLACES;",
        "const Index b = at / PLACES;",
        "const int place = at - b * PLACES, y = place / WIDTH, x = place % WIDTH;",
        "float sum[GROUP] = {};",
        *shared_weights(code.pointer(step.second), "CHANNELS", "FILTERS", "(d * CHANNELS + g) * TAPS + t"),
        f"  const float* const planes = {code.pointer(step.first)} + (b * FILTERS + first) * (TALL * BROAD);",
        "  const int count = FILTERS - first < CHUNK ? FILTERS - first : CHUNK;",
        "#pragma unroll",
        "  for (int t = 0; t < TAPS; ++t) {",
        "    const int v = y + PH - t / KW * DH, u = x + PW - t % KW * DW;",
        "    if (!mine || v < 0 || u < 0 || v % SH || u % SW || v / SH >= TALL || u / SW >= BROAD) continue;",
        "    const float* const from = planes + v / SH * BROAD + u / SW;",
        "#pragma unroll 8",
        "    for (int d = share; d < count; d += SHARES) {",
        "      const float value = from[d * (TALL * BROAD)];",
        "#pragma unroll",
        "      for (int g = 0; g < GROUP; ++g) sum[g] += value * weights[d][t][g];",
        "    }",
        "  }",
        "}",
        "if (SHARES > 1) {",
        "  for (int g = 0; g < GROUP; ++g) room[share][g][threadIdx.x % EACH] = sum[g];",
        "  __syncthreads();",
        "}",
        "if (!mine || share) return;",
        "#pragma unroll",
        "for (int g = 0; g < GROUP; ++g) {",
        "  for (int s = 1; s < SHARES; ++s) sum[g] += room[s][g][threadIdx.x];",
        "  const int channel = group * GROUP + g;",
        f"  if (channel < CHANNELS) {target}[(b * CHANNELS + channel) * PLACES + place] = sum[g];",
        "}",
    ]
    each = int(genes["threads"]) // int(genes["shares"])
    return lines, f"ceil(batch_{n} * height_{n} * width_{n}, {each}) * ceil(channels_{n}, group_{n})"


def weight_gradient(step: ConvolutionStep, code: KernelWriter) -> tuple[list[str], str]:
    """Blocks for each filter and channel, each with its share of the images; the last of them joins the shares.

    A thread goes down a column of an image, so that it reads each line under the window once.
    """
    n, genes = code.step, code.genes
    given, image = code.pointer(step.first), code.pointer(step.second)
    target = code.pointer(step.output, written=True, read=False)
    code.set("pairs", f"filters_{n} * channels_{n}")
    aim = f"max(1, {genes['blocks']} * kw.device.multiprocessors // pairs_{n})"
    code.set("splits", f"min(batch_{n}, {aim})")
    taps = step.window.kernel[0] * step.window.kernel[1]
    code.setup.append(f'shares_{n} = kw.scratch("shares_{n}", 4 * splits_{n} * pairs_{n} * {taps})')
    code.setup.append(f'came_{n} = kw.workspace("came_{n}", 4 * pairs_{n})')
    shares, came = code.pointer(f"shares_{n}", written=True), code.pointer(f"came_{n}", written=True, kind="unsigned")
    lines = [
        f"constexpr int SPLITS = SPLITS_{n}, PLACES = TALL * BROAD, IMAGES = (BATCH + SPLITS - 1) / SPLITS;",
        "constexpr int REACH = (KH - 1) * DH + 1;",
        "__shared__ float found[THREADS / 32][TAPS];",
        "const int pair = block / SPLITS, split = block % SPLITS;",
        "const int filter = pair / CHANNELS, channel = pair % CHANNELS;",
        "const int begin = split * IMAGES, end = begin + IMAGES < BATCH ? begin + IMAGES : BATCH;",
        "float sum[TAPS] = {};",
        "for (int at = threadIdx.x; at < (end - begin) * BROAD; at += THREADS) {",
        "  const Index b = begin + at / BROAD;",
        "  const int across = at % BROAD, left = across * SW - PW;",
        f"  const float* const from = {given} + (b * FILTERS + filter) * PLACES + across;",
        f"  const float* const plane = {image} + (b * CHANNELS + channel) * (HEIGHT * WIDTH);",
        "  float seen[REACH][KW];  // the lines of the image under the window, from its top on",
        "  const auto read = [&](const int i, const int y) {",
        "#pragma unroll",
        "    for (int j = 0; j < KW; ++j) {",
        "      const int x = left + j * DW;",
        "      seen[i][j] = y >= 0 && y < HEIGHT && x >= 0 && x < WIDTH ? plane[y * WIDTH + x] : 0.0f;",
        "    }",
        "  };",
        "#pragma unroll",
        "  for (int i = 0; i < REACH - SH; ++i) read(i, i - PH);",
        "#pragma unroll 4",
        "  for (int down = 0; down < TALL; ++down) {",
        "#pragma unroll",
        "    for (int i = REACH > SH ? REACH - SH : 0; i < REACH; ++i) read(i, down * SH - PH + i);",
        "    const float value = from[down * BROAD];",
        "#pragma unroll",
        "    for (int t = 0; t < TAPS; ++t) sum[t] += value * seen[t / KW * DH][t % KW];",
        "#pragma unroll",
        "    for (int i = 0; i + SH < REACH; ++i) copy(seen[i], seen[i + SH]);",
        "  }",
        "}",
        "#pragma unroll",
        "for (int t = 0; t < TAPS; ++t) {",
        "  const float whole = over_team<Sum, 32>(sum[t], found[0]);",
        "  if (threadIdx.x % 32 == 0) found[threadIdx.x / 32][t] = whole;",
        "}",
        "__syncthreads();",
        "float whole = 0.0f;",
        "if (threadIdx.x < TAPS)",
        "  for (int i = 0; i < THREADS / 32; ++i) whole += found[i][threadIdx.x];",
        "if (SPLITS > 1) {",
        f"  if (threadIdx.x < TAPS) {shares}[block * TAPS + threadIdx.x] = whole;",
        f"  if (!last_to_come({came} + pair, SPLITS)) return;",
        "  whole = 0.0f;",
        "  if (threadIdx.x < TAPS)",
        "#pragma unroll 8",
        "    for (int i = 0; i < SPLITS; ++i)",
        f"      whole += fetched({shares} + (pair * SPLITS + i) * TAPS + threadIdx.x);",
        "}",
        f"if (threadIdx.x < TAPS) {target}[pair * TAPS + threadIdx.x] = whole;",
    ]
    return lines, f"pairs_{n} * splits_{n}"


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
    if isinstance(step, PooledConvolution):
        return GenePool((threads, Gene("group", (1, 2, 4, 8, 16), (4, 8, 2))))
    own: tuple[Gene, ...]
    match step.kind:
        case "weight":
            own = (threads, Gene("blocks", (1, 2, 4, 8), (4, 8, 2)))
        case "input":
            own = (threads, Gene("group", (1, 2, 4, 8), (4, 8, 2)), Gene("shares", (1, 2, 4, 8), (4, 2, 8)))
        case _:
            own = (threads, Gene("group", (1, 2, 4, 8, 16), (4, 8, 2)))
    return GenePool((*contraction.genes("float32"), *own))


def describe(step: Convolving, genes: Genes) -> str:
    inner = step.convolution if isinstance(step, PooledConvolution) else step
    what = {"forward": "convolution", "input": "gradient of the input", "weight": "gradient of the weight"}[inner.kind]
    text = f"{what} {_described(genes, _methods(step, genes))}"
    if inner.epilogue:
        text += ", the steps after it on each element"
    return text + (", pooled in registers" if isinstance(step, PooledConvolution) else "")


def _described(genes: Genes, methods: tuple[bool, str]) -> str:
    direct, tiled = methods
    if not direct:
        return f"as a product, {contraction.described(tiled, genes)}"
    text = "by direct sums"
    if "group" in genes:
        text += f", {genes['group']} planes for each thread, weights in shared memory"
    if "shares" in genes:
        text += f", filters in {genes['shares']} shares"
    if "blocks" in genes:
        text += f", images split until there are {genes['blocks']} blocks for each multiprocessor"
    if tiled:
        few = f"below 2^{genes['border']} multiplications or {contraction.FEW} filters"
        text += f" {few}, else as a product, {contraction.described(tiled, genes)}"
    return text


def _methods(step: Convolving, genes: Genes) -> tuple[bool, str]:
    """Whether there are direct sums, and on which units a product is made, if any."""
    if isinstance(step, PooledConvolution):
        return True, ""
    method = str(genes["method"])
    if method == "direct" and taps_of(step) <= MOST_TAPS:
        return True, ""
    if method == "size" and taps_of(step) <= MOST_TAPS:
        return True, "wgmma"
    return False, "size" if method in ("size", "direct") else method


def is_large(step: ConvolutionStep) -> bool:
    """Whether sizes that never vary ask for tensor cores, or the window for more than direct sums can do."""
    sizes = [extent.literal for extent in (step.batch, step.filters, step.channels, step.tall, step.broad)]
    if taps_of(step) > MOST_TAPS:
        return True
    if any(size is None for size in sizes):
        return False
    work = prod(size for size in sizes if size is not None) * taps_of(step)
    return work >= LARGE and (step.filters.literal or 0) >= contraction.FEW


def taps_of(step: ConvolutionStep) -> int:
    return step.window.kernel[0] * step.window.kernel[1]


def render(step: Convolving, genes: Genes, sizes: Sizes, graph: Graph, number: int) -> list[Kernel]:
    direct, tiled = _methods(step, genes)
    kernels: list[Kernel] = []
    if tiled and isinstance(step, ConvolutionStep):
        code = KernelWriter(genes={**genes, "method": tiled}, sizes=sizes, graph=graph, step=number)
        form = contraction_of(step)
        product = contraction.written(form, step.first, step.second, step.output, step.epilogue, code)
        kernels.append(_where(product, f"few_{number} == 0", f"FEW_{number} == 0") if direct else product)
    if direct:
        one = _direct(step, genes, sizes, graph, number)
        kernels.append(_where(one, f"few_{number}", f"FEW_{number}") if tiled else one)
    return kernels


def _where(kernel: Kernel, python: str, condition: str) -> Kernel:
    """Only at sizes that want it, and not even compiled at others."""
    return replace(kernel, when=python, body=f"#if {condition}\n{kernel.body}#endif\n")


def _direct(step: Convolving, genes: Genes, sizes: Sizes, graph: Graph, number: int) -> Kernel:
    pool = step.pool if isinstance(step, PooledConvolution) else None
    inner = step.convolution if isinstance(step, PooledConvolution) else step
    code = KernelWriter(genes=genes, sizes=sizes, graph=graph, step=number)
    for name in ("batch", "channels", "height", "width", "filters", "tall", "broad"):
        code.set(name, code.size(getattr(inner, name)))
    match inner.kind:
        case "forward":
            lines, blocks = _forward(inner, pool, code)
        case "input":
            lines, blocks = input_gradient(inner, code)
        case _:
            lines, blocks = weight_gradient(inner, code)
    body = "".join(f"  {line}\n" for line in [*constants(inner, code), *lines])
    parameters, threads = tuple(code.parameters.values()), str(genes["threads"])
    return Kernel(f"convolution_{number}", parameters, body, code.plan_lines, blocks, threads)


class _RowsEarly(Epilogue):
    """What the last steps read once for each plane is read before the sums begin."""

    def __init__(self, code: KernelWriter, program: RowProgram | None, output: str) -> None:
        self.early: dict[int, str] = {}
        super().__init__(code, program, output)

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


def _forward(step: ConvolutionStep, pool: PoolStep | None, code: KernelWriter) -> tuple[list[str], str]:
    """All that a thread needs of the first channel is asked for before the one barrier, weights included."""
    n, genes = code.step, code.genes
    (qh, qw), (rh, rw) = (pool.window.kernel, pool.window.stride) if pool else ((1, 1), (1, 1))
    last = _RowsEarly(code, step.epilogue, step.output)
    stores = _pooled(last, code, pool) if pool else _stored(last)
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
        f"  const float* const plane = {code.pointer(step.first)} + (b * CHANNELS + channel) * (HEIGHT * WIDTH);",
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
        *shared_weights(code.pointer(step.second), "FILTERS", "CHANNELS", "(g * CHANNELS + d) * TAPS + t"),
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


def _stored(last: Epilogue) -> list[str]:
    return [*_PLACES, *(f"  {line}" for line in last.stores()), "}"]


def _pooled(last: Epilogue, code: KernelWriter, pool: PoolStep) -> list[str]:
    steps, value = last.value()
    target = code.pointer(pool.output, written=True, read=False)
    inner = [*_PLACES, *(f"  {line}" for line in steps), f"  best = most(best, {value});", "}"]
    return ["float best = -INF;", *inner, f"{target}[row * PLACES + place] = best;"]
