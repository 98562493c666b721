"""What convolutions and their gradients have in common: constants, and weights in shared memory."""

from __future__ import annotations

from kernelwright.proposers.templates.cuda.pen import Pen
from kernelwright.proposers.templates.patterns.heavy import ConvolutionStep

SHARED_FLOATS = 8192  # of weights at a time


def constants(step: ConvolutionStep, pen: Pen) -> list[str]:
    n = pen.step
    names = ("batch", "channels", "height", "width", "filters", "tall", "broad")
    sizes = ", ".join(f"{name.upper()} = {name.upper()}_{n}" for name in names)
    window = step.window
    (kh, kw), (sh, sw), (ph, pw), (dh, dw) = window.kernel, window.stride, window.padding, window.dilation
    image, made = f"channels_{n} * height_{n} * width_{n}", f"filters_{n} * tall_{n} * broad_{n}"
    pen.define(f"INDEX_{n}", f"'int' if batch_{n} * max({image}, {made}) < 2 ** 31 else 'long long'")
    return [
        f"constexpr int {sizes};",
        f"using Index = INDEX_{n};",
        f"constexpr int KH = {kh}, KW = {kw}, SH = {sh}, SW = {sw}, PH = {ph}, PW = {pw}, DH = {dh}, DW = {dw};",
        f"constexpr int TAPS = KH * KW, THREADS = {pen.genes['threads']};",
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
