"""Writes the launch before a large product that copies operands with rows of odd lengths to where rows are aligned.

Producers then take 16 bytes at a time, and test nothing: copies have a whole number of tiles, with zeros around them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from kernelwright.proposers.templates.cuda.kernels import Kernel, KernelWriter
from kernelwright.proposers.templates.genes import Gene, Genes
from kernelwright.proposers.templates.patterns.heavy import MatmulStep

GENE = Gene("pad", (0, 1), (1, 0))
THREADS = 256
ALIGNED = 4  # floats in 16 bytes
LEAST_USES = 512  # of each element that is copied, in multiplications: a copy costs as much as 150
MOST = 30  # elements of an operand that is copied, as a power of two: scratch memory has an end


def describe(genes: Genes) -> str:
    return ", after odd rows are copied to aligned ones" if genes["pad"] else ""


def operands(step: MatmulStep, code: KernelWriter, other: str | None) -> tuple[tuple[str, str], ...]:
    """Sides and tensors: the left one, and both right ones, which may be the same."""
    return ("left", step.left), ("right", other or step.right), ("other" if other else "right", step.right)


def pointer(code: KernelWriter, side: str, tensor: str) -> str:
    """Of the operand or of its copy."""
    flag = f"PADS_{'left' if side == 'left' else 'right'}_{code.step}".upper()
    return f"({flag} ? {code.pointer(copied(side, code.step))} : {code.pointer(tensor)})"


def copied(side: str, n: int) -> str:
    return f"padded_{side}_{n}"


def is_fed(step: MatmulStep, code: KernelWriter) -> str:
    """In Python: whether producers bring no operand element by element. Where neighbours are columns, threads that are
    neighbours bring them anyway."""
    sides = ["left", *(["right"] if step.right_transposed else [])]
    return " and ".join(f"(not {_odd(side, step, code)} or {_worth(side, code)})" for side in sides)


def kernel(
    step: MatmulStep, code: KernelWriter, produced: str, tile: str, helpers: Sequence[str], other: str | None
) -> Kernel:
    """Copies what is to be copied, if `produced`; adds to the plan of the product what was copied.

    It is a launch of its own: where nothing is copied, no other has threads for it.
    """
    n, forced = code.step, code.genes["method"] == "producers"
    for side in ("left", "right"):
        worth = ("True" if forced else _worth(side, code)) if code.genes["pad"] else "False"
        code.set(f"pads_{side}", f"int(bool(({produced}) and {worth} and {_odd(side, step, code)}))")
    inner = replace(code, parameters={}, setup=list(code.setup))
    inner.types = code.types
    inner.setup.append(f"high_{n}, wide_{n} = {tile} if pads_left_{n} or pads_right_{n} else (1, 1)")
    wide = f"(wide_{n} // 2)" if other else f"wide_{n}"
    lines, counts = ["int at = block;"], []
    for side, tensor in dict(operands(step, code, other)).items():
        left = side == "left"
        along = not step.left_transposed if left else step.right_transposed
        across, size = ("m", f"high_{n}") if left else ("n", wide)
        sizes = [(f"{across}_{n}", size), (f"k_{n}", "32")]
        (down, high), (length, broad) = sizes if along else sizes[::-1]
        pads = f"pads_{'left' if left else 'right'}_{n}"
        all_, pitch = f"all_{side}", f"pitch_{side}"
        inner.give_size(all_, f"ceil({down}, {high}) * {high} if {pads} else 0")
        inner.give_size(pitch, f"ceil({length}, {broad}) * {broad} if {pads} else 0")
        inner.setup.append(f'{copied(side, n)} = kw.scratch("{copied(side, n)}", 4 * max(1, {all_}_{n} * {pitch}_{n}))')
        source, target = inner.pointer(tensor), inner.pointer(copied(side, n), written=True, read=False)
        inner.give(f"LINES_{side.upper()}_{n}", down)
        inner.give(f"LENGTH_{side.upper()}_{n}", length)
        names = ", ".join(f"{name}_{side.upper()}_{n}" for name in ("LINES", "LENGTH", "PITCH"))
        lines.append(f"if (at >= 0 && at < ALL_{side.upper()}_{n})")
        lines.append(f"  copy_padded<{THREADS}>(at, {source}, {target}, {names});")
        lines.append(f"at -= ALL_{side.upper()}_{n};")
        counts.append(f"{all_}_{n}")
    return Kernel(
        f"padding_{n}",
        tuple(inner.parameters.values()),
        "".join(f"  {line}\n" for line in lines),
        inner.plan_lines,
        " + ".join(counts),
        str(THREADS),
        heavy=True,
        needs=(COPY,),
        helpers=tuple(helpers),
        dynamic=code.dynamic,
    )


def _length(side: str, step: MatmulStep, n: int) -> str:
    if side == "left":
        return f"m_{n}" if step.left_transposed else f"k_{n}"
    return f"k_{n}" if step.right_transposed else f"n_{n}"


def _odd(side: str, step: MatmulStep, code: KernelWriter) -> str:
    return f"{_length(side, step, code.step)} % {ALIGNED} != 0"


def _worth(side: str, code: KernelWriter) -> str:
    n = code.step
    uses, lines = (f"n_{n}", f"m_{n}") if side == "left" else (f"m_{n}", f"n_{n}")
    return f"({uses} >= {LEAST_USES} and {lines} * k_{n} < 2**{MOST})" if code.genes["pad"] else "False"


COPY = """\
// One line of a matrix to where lines are a whole number of 128 bytes, so that each store of a warp is one of them;
// what is beyond the matrix becomes zero. Several loads of a thread are on their way at a time.
template <int Threads>
__device__ __forceinline__ void copy_padded(
    const int line, const float* const from, float* const to, const int lines, const int length, const int pitch) {
  constexpr int TOGETHER = 8;
  const float* const source = from + 1ll * line * length;
  float* const target = to + 1ll * line * pitch;
  for (int start = threadIdx.x; start < pitch; start += Threads * TOGETHER) {
    float v[TOGETHER];
#pragma unroll
    for (int i = 0; i < TOGETHER; ++i) {
      const int at = start + i * Threads;
      v[i] = line < lines && at < length ? source[at] : 0.0f;
    }
#pragma unroll
    for (int i = 0; i < TOGETHER; ++i)
      if (start + i * Threads < pitch) target[start + i * Threads] = v[i];
  }
}
"""
