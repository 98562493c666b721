"""Gradients of a convolution by direct sums, towards its input and towards its weight."""

from __future__ import annotations

from kernelwright.proposers.templates.cuda.convolution_parts import shared_weights
from kernelwright.proposers.templates.cuda.pen import Pen
from kernelwright.proposers.templates.patterns.heavy import ConvolutionStep


def input_gradient(step: ConvolutionStep, pen: Pen) -> tuple[list[str], str]:
    n, genes = pen.step, pen.genes
    pen.set("group", f"min({genes['group']}, channels_{n})")
    target = pen.pointer(step.output, written=True, read=False)
    lines = [
        f"constexpr int GROUP = GROUP_{n}, GROUPS = (CHANNELS + GROUP - 1) / GROUP, PLACES = HEIGHT * WIDTH;",
        "const int group = block % GROUPS;",
        "const Index at = static_cast<Index>(block / GROUPS) * THREADS + threadIdx.x;",
        "const bool mine = at < static_cast<Index>(BATCH) * PLACES;",
        "const Index b = at / PLACES;",
        "const int place = at - b * PLACES, y = place / WIDTH, x = place % WIDTH;",
        "float sum[GROUP] = {};",
        *shared_weights(pen.pointer(step.second), "CHANNELS", "FILTERS", "(d * CHANNELS + g) * TAPS + t"),
        f"  const float* const planes = {pen.pointer(step.first)} + (b * FILTERS + first) * (TALL * BROAD);",
        "  const int count = FILTERS - first < CHUNK ? FILTERS - first : CHUNK;",
        "#pragma unroll",
        "  for (int t = 0; t < TAPS; ++t) {",
        "    const int v = y + PH - t / KW * DH, u = x + PW - t % KW * DW;",
        "    if (!mine || v < 0 || u < 0 || v % SH || u % SW || v / SH >= TALL || u / SW >= BROAD) continue;",
        "    const float* const from = planes + v / SH * BROAD + u / SW;",
        "#pragma unroll 8",
        "    for (int d = 0; d < count; ++d) {",
        "      const float value = from[d * (TALL * BROAD)];",
        "#pragma unroll",
        "      for (int g = 0; g < GROUP; ++g) sum[g] += value * weights[d][t][g];",
        "    }",
        "  }",
        "}",
        "if (!mine) return;",
        "#pragma unroll",
        "for (int g = 0; g < GROUP; ++g) {",
        "  const int channel = group * GROUP + g;",
        f"  if (channel < CHANNELS) {target}[(b * CHANNELS + channel) * PLACES + place] = sum[g];",
        "}",
    ]
    return lines, f"ceil(batch_{n} * height_{n} * width_{n}, {genes['threads']}) * ceil(channels_{n}, group_{n})"


def weight_gradient(step: ConvolutionStep, pen: Pen) -> tuple[list[str], str]:
    """Blocks for each filter and channel, each with its share of the images; the last of them joins the shares."""
    n, genes = pen.step, pen.genes
    given, image = pen.pointer(step.first), pen.pointer(step.second)
    target = pen.pointer(step.output, written=True, read=False)
    pen.set("pairs", f"filters_{n} * channels_{n}")
    aim = f"max(1, {genes['blocks']} * kw.device.multiprocessors // pairs_{n})"
    pen.set("splits", f"min(batch_{n}, {aim})")
    taps = step.window.kernel[0] * step.window.kernel[1]
    pen.setup.append(f'shares_{n} = kw.scratch("shares_{n}", 4 * splits_{n} * pairs_{n} * {taps})')
    pen.setup.append(f'came_{n} = kw.workspace("came_{n}", 4 * pairs_{n})')
    shares, came = pen.pointer(f"shares_{n}", written=True), pen.pointer(f"came_{n}", written=True, kind="unsigned")
    lines = [
        f"constexpr int SPLITS = SPLITS_{n}, PLACES = TALL * BROAD, IMAGES = (BATCH + SPLITS - 1) / SPLITS;",
        "__shared__ float found[THREADS / 32][TAPS];",
        "const int pair = block / SPLITS, split = block % SPLITS;",
        "const int filter = pair / CHANNELS, channel = pair % CHANNELS;",
        "const int begin = split * IMAGES, end = begin + IMAGES < BATCH ? begin + IMAGES : BATCH;",
        "float sum[TAPS] = {};",
        "#pragma unroll 4",
        "for (int at = threadIdx.x; at < (end - begin) * PLACES; at += THREADS) {",
        "  const int b = begin + at / PLACES, place = at % PLACES;",
        "  const int down = place / BROAD, across = place % BROAD;",
        f"  const float value = {given}[(static_cast<Index>(b) * FILTERS + filter) * PLACES + place];",
        f"  const float* const plane = {image} + (static_cast<Index>(b) * CHANNELS + channel) * (HEIGHT * WIDTH);",
        "#pragma unroll",
        "  for (int t = 0; t < TAPS; ++t) {",
        "    const int y = down * SH - PH + t / KW * DH, x = across * SW - PW + t % KW * DW;",
        "    if (y >= 0 && y < HEIGHT && x >= 0 && x < WIDTH) sum[t] += value * plane[y * WIDTH + x];",
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
