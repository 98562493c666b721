"""Gradients of a convolution by direct sums, towards its input and towards its weight."""

from __future__ import annotations

from kernelwright.proposers.templates.cuda.convolution_parts import shared_weights
from kernelwright.proposers.templates.cuda.pen import Pen
from kernelwright.proposers.templates.patterns.heavy import ConvolutionStep


def input_gradient(step: ConvolutionStep, pen: Pen) -> tuple[list[str], str]:
    """A block has SHARES threads for each place, each with its share of the filters."""
    n, genes = pen.step, pen.genes
    pen.set("group", f"min({genes['group']}, channels_{n})")
    target = pen.pointer(step.output, written=True, read=False)
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
        *shared_weights(pen.pointer(step.second), "CHANNELS", "FILTERS", "(d * CHANNELS + g) * TAPS + t"),
        f"  const float* const planes = {pen.pointer(step.first)} + (b * FILTERS + first) * (TALL * BROAD);",
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


def weight_gradient(step: ConvolutionStep, pen: Pen) -> tuple[list[str], str]:
    """Blocks for each filter and channel, each with its share of the images; the last of them joins the shares.

    A thread goes down a column of an image, so that it reads each line under the window once.
    """
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
