"""Writes a small product: lanes run over the depth, or over the columns, and all loads are issued at once."""

from __future__ import annotations

from kernelwright.proposers.templates.cuda.kernels import KernelBody, KernelWriter
from kernelwright.proposers.templates.genes import Genes
from kernelwright.proposers.templates.patterns.heavy import MatmulStep

PATCHES = ("0", "1x1", "1x2", "2x1", "2x2", "2x4", "4x2", "4x4", "4x8", "8x4", "8x8")
FEW = 8
DEEPEST_STRIP = 1024  # a team of warps goes down all of it
MOST_TEAM = 8
LOADS_OF_A_STRIP = 8  # for each warp of a team
SIDES = """\
def sides(rows, cols, tall, broad):
    # Of what is not given: where loads are used most often, with a warp left for nearly every multiprocessor.
    talls = [tall] if tall else [side for side in (8, 4, 2, 1) if side < 2 * rows]
    broads = [broad] if broad else [side for side in (8, 4, 2, 1) if side < 2 * cols]
    choices = sorted(((t, b) for t in talls for b in broads), key=lambda one: one[0] * one[1] / (one[0] + one[1]))
    enough = 0.9 * kw.device.multiprocessors
    return next((one for one in reversed(choices) if ceil(rows, one[0]) * ceil(cols, one[1]) >= enough), choices[0])
"""

FEWER_SIDES = """\
def sides(rows, cols, tall, broad):
    # As where sizes are known, of fewer choices: each is a build of its own.
    enough = 0.9 * kw.device.multiprocessors
    for side in (4, 2):
        if ceil(rows, tall or side) * ceil(cols, broad or side) >= enough:
            return tall or side, broad or side
    return tall or 1, broad or 1
"""


def covers(step: MatmulStep) -> bool:
    """Lanes need neighbouring elements of the right operand, and of both if they run over the depth."""
    return not (step.left_transposed and step.right_transposed)


def is_small(step: MatmulStep, border: int, m: str, n: str, k: str) -> str:
    """In Python: few multiplications, or few rows or columns, so that every weight is used that often only."""
    if step.right_transposed:
        return f"{m} * {n} * {k} < 2 ** {border} or min({m}, {n}) <= {FEW}"
    return f"({m} * {n} * {k} < 2 ** {border} and {k} <= {DEEPEST_STRIP}) or ({m} <= {FEW} and {k} <= {n})"


def describe(step: MatmulStep, genes: Genes) -> str:
    patch = str(genes["patch"]) if genes["patch"] != "0" else "as many as fit"
    team = genes["team"] or f"up to {MOST_TEAM}"
    if step.right_transposed:
        return f"lanes along the depth, {patch} elements a warp, {team} warps for the depth"
    return f"lanes along the columns, {patch.split('x')[0]} rows a warp, {team} warps for the depth"


def written(step: MatmulStep, code: KernelWriter, left: str = "", right: str = "") -> KernelBody:
    """`left` and `right` are the operands where they are not read as they lie.

    The plan has `vector` floats for a lane, `tall` x `broad` elements for a warp, `team` warps for all of them.
    """
    n, genes = code.step, code.genes
    along_depth = step.right_transposed
    code.set("vector", code.widest(genes["width"], f"{'k' if along_depth else 'n'}_{n}"))
    strip = f"(32 * vector_{n})"
    across = f"n_{n}" if along_depth else f"ceil(n_{n}, {strip})"
    rows, cols = str(genes["patch"]).split("x") if genes["patch"] != "0" else ("0", "0")
    chosen = f"sides(m_{n}, {across}, {rows}, {cols if along_depth else 1})"
    code.setup.append(f"tall_{n}, broad_{n} = {chosen}")
    code.define(f"TALL_{n}", f"tall_{n}")
    code.define(f"BROAD_{n}", f"broad_{n}")
    deep = f"ceil(k_{n}, {strip if along_depth else LOADS_OF_A_STRIP})"
    if code.dynamic:
        code.setup.append(f"deep_{n} = {deep}")
    else:
        code.set("deep", deep)
    code.settle("team", f"min({genes['team'] or MOST_TEAM}, power(deep_{n}))")
    code.set("warps", f"max(team_{n}, {genes['warps']})")
    most, share = int(genes["ahead"]), f"ceil(deep_{n}, team_{n})"
    if not along_depth:
        most, share = LOADS_OF_A_STRIP // 2 * most, f"ceil(k_{n}, team_{n})"
    code.set("ahead", str(most) if code.dynamic else f"min({most}, {share})")
    function = "dots" if along_depth else "strips"
    first = f"BROAD_{n}" if along_depth else str(step.left_transposed).lower()
    chosen = f"Shape_{n}, {first}, TALL_{n}, TEAM_{n}, WARPS_{n}, VECTOR_{n}, AHEAD_{n}"
    left = left or f"Plain{{{code.pointer(step.left)}}}"
    right = right or f"Plain{{{code.pointer(step.right)}}}"
    shape = "shape, " if code.dynamic else ""
    call = f"{function}<{chosen}>({shape}block, {left}, {right}, last);"
    blocks = f"ceil(ceil(m_{n}, tall_{n}) * ceil({across}, broad_{n}), warps_{n} // team_{n})"
    elements = f"tall_{n} * broad_{n}" if along_depth else f"tall_{n} * {strip}"
    shared = f"4 * warps_{n} * {elements} if team_{n} > 1 else 0"
    needs, helpers = (OPERANDS, DOTS if along_depth else STRIPS), (FEWER_SIDES if code.dynamic else SIDES,)
    return KernelBody([call], blocks, f"32 * warps_{n}", shared, needs=needs, helpers=helpers)


OPERANDS = """\
// Operands that are read as they lie in memory, and that are one everywhere.
struct Plain {
  const float* from;
  template <int Width>
  __device__ __forceinline__ void read(float (&to)[Width], const long long at) const { load(to, from + at); }
};
struct Ones {
  template <int Width>
  __device__ __forceinline__ void read(float (&to)[Width], const long long) const {
#pragma unroll
    for (int j = 0; j < Width; ++j) to[j] = 1.0f;
  }
};
"""

DOTS = """\
// Sums over the lanes of a warp of `Count` values each: a lane ends with those from lane * Count / 32 on.
template <int Count, int Distance = 16, int Whole>
__device__ inline void sum_over_lanes(float (&v)[Whole]) {
  if constexpr (Distance > 0) {
    if constexpr (Count > 1) {
      const bool upper = threadIdx.x & Distance;
#pragma unroll
      for (int i = 0; i < Count / 2; ++i) {
        const float away = upper ? v[i] : v[i + Count / 2], kept = upper ? v[i + Count / 2] : v[i];
        v[i] = kept + __shfl_xor_sync(0xffffffffu, away, Distance);
      }
      sum_over_lanes<Count / 2, Distance / 2>(v);
    } else {
      v[0] += __shfl_xor_sync(0xffffffffu, v[0], Distance);
      sum_over_lanes<1, Distance / 2>(v);
    }
  }
}

// Both operands lie along the depth. A warp has Tall x Wide elements and its lanes run over the depth; `Team` warps
// share it.
template <
    class Shape, int Wide, int Tall, int Team, int Warps, int Width, int Ahead, class Left, class Right, class Last>
__device__ __forceinline__ void dots(const int block, const Left& left, const Right& right, const Last& last) {
  extern __shared__ __align__(16) float room[];
  constexpr int COUNT = Tall * Wide, EACH = COUNT < 32 ? 1 : COUNT / 32, SPARE = COUNT < 32 ? 32 / COUNT : 1;
  constexpr int STEP = 32 * Team * Width;
  constexpr int ACROSS = (Shape::COLS + Wide - 1) / Wide, DOWN = (Shape::ROWS + Tall - 1) / Tall;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, part = warp % Team;
  const int group = block * (Warps / Team) + warp / Team;
  const int top = group / ACROSS * Tall, first = group % ACROSS * Wide;
  // Where this thread has results in the end: by lanes, or by the threads of a team.
  const int mine = Team > 1 ? part * 32 + lane : lane * COUNT / 32;
  const bool has = group < ACROSS * DOWN && (Team > 1 || lane % SPARE == 0);
  constexpr int RESULTS = Team > 1 ? (COUNT + Team * 32 - 1) / (Team * 32) : EACH;
  constexpr int STRIDE = Team > 1 ? Team * 32 : 1;
  decltype(last.extra(0, 0)) extras[RESULTS][1];
#pragma unroll
  for (int j = 0; j < RESULTS; ++j) {
    const int at = mine + j * STRIDE;
    const long long row = top + at / Wide, c = first + at % Wide;
    if (has && at < COUNT && row < Shape::ROWS && c < Shape::COLS) extras[j][0] = last.extra(row, c);
  }
  long long lefts[Tall], rights[Wide];
  constexpr long long LINE = Shape::DEPTH;
#pragma unroll
  for (int a = 0; a < Tall; ++a) lefts[a] = LINE * min(top + a, Shape::ROWS - 1);
#pragma unroll
  for (int b = 0; b < Wide; ++b) rights[b] = LINE * min(first + b, Shape::COLS - 1);
  float sum[COUNT] = {};
  for (int start = (part * 32 + lane) * Width; start < Shape::DEPTH; start += STEP * Ahead) {
    alignas(16) float l[Ahead][Tall][Width] = {}, r[Ahead][Wide][Width] = {};
#pragma unroll
    for (int s = 0; s < Ahead; ++s) {
      const int k = start + s * STEP;
      if (s == 0 || Shape::DEPTH % (STEP * Ahead) == 0 || k < Shape::DEPTH) {
#pragma unroll
        for (int a = 0; a < Tall; ++a) left.read(l[s][a], lefts[a] + k);
#pragma unroll
        for (int b = 0; b < Wide; ++b) right.read(r[s][b], rights[b] + k);
      }
    }
#pragma unroll
    for (int s = 0; s < Ahead; ++s)
#pragma unroll
      for (int w = 0; w < Width; ++w)
#pragma unroll
        for (int i = 0; i < COUNT; ++i) sum[i] += l[s][i / Wide][w] * r[s][i % Wide][w];
  }
  sum_over_lanes<COUNT>(sum);
  if constexpr (Team > 1) {
    float* const parts = room + warp / Team * Team * COUNT;
#pragma unroll
    for (int j = 0; j < EACH; ++j)
      if (lane % SPARE == 0) parts[part * COUNT + lane * COUNT / 32 + j] = sum[j];
    __syncthreads();
#pragma unroll
    for (int j = 0; j < RESULTS; ++j) {
      const int at = mine + j * STRIDE;
      sum[j] = 0.0f;
      if (at < COUNT)
#pragma unroll
        for (int p = 0; p < Team; ++p) sum[j] += parts[p * COUNT + at];
    }
  }
#pragma unroll
  for (int j = 0; j < RESULTS; ++j) {
    const int at = mine + j * STRIDE;
    const long long row = top + at / Wide, c = first + at % Wide;
    const float one[1] = {sum[j]};
    if (has && at < COUNT && row < Shape::ROWS && c < Shape::COLS) last.finish(one, row, c, extras[j]);
  }
}
"""

STRIPS = """\
// The right operand lies along the columns. A warp has Tall rows of a strip of 32 vectors of columns; `Team` warps
// share the depth. The left operand's elements are the same for all lanes.
template <
    class Shape, bool Turned, int Tall, int Team, int Warps, int Width, int Ahead, class Left, class Right, class Last>
__device__ __forceinline__ void strips(const int block, const Left& left, const Right& right, const Last& last) {
  extern __shared__ __align__(16) float room[];
  constexpr int STRIP = 32 * Width, ACROSS = (Shape::COLS + STRIP - 1) / STRIP, DOWN = (Shape::ROWS + Tall - 1) / Tall;
  constexpr int SHARE = (Shape::DEPTH + Team - 1) / Team, COUNT = Tall * Width;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, part = warp % Team;
  const int group = block * (Warps / Team) + warp / Team;
  const int top = group / ACROSS * Tall, first = group % ACROSS * STRIP, end = min((part + 1) * SHARE, Shape::DEPTH);
  const bool there = group < ACROSS * DOWN, covered = there && first + lane * Width < Shape::COLS;
  // Where this thread has results in the end: its own vectors, or single elements of the team's.
  constexpr int VECTOR = Team > 1 ? 1 : Width, RESULTS = Team > 1 ? (COUNT + Team - 1) / Team : Tall;
  decltype(last.extra(0, 0)) extras[RESULTS][VECTOR];
  const auto place = [&](const int j, long long& row, long long& c) {
    const int at = Team > 1 ? (j * Team + part) * 32 + lane : j * STRIP + lane * Width;
    row = top + at / STRIP, c = first + at % STRIP;
    return there && at < Tall * STRIP && row < Shape::ROWS && c < Shape::COLS;
  };
#pragma unroll
  for (int j = 0; j < RESULTS; ++j) {
    long long row, c;
    if (place(j, row, c))
#pragma unroll
      for (int w = 0; w < VECTOR; ++w) extras[j][w] = last.extra(row, c + w);
  }
  alignas(16) float sum[Tall][Width] = {};
  if (there)
    for (int start = part * SHARE; start < end; start += Ahead) {
      alignas(16) float l[Ahead][Tall][1] = {}, r[Ahead][Width] = {};
#pragma unroll
      for (int s = 0; s < Ahead; ++s) {
        const int k = start + s;
        if (covered && k < end) right.read(r[s], 1ll * k * Shape::COLS + first + lane * Width);
#pragma unroll
        for (int a = 0; a < Tall; ++a) {
          const long long row = min(top + a, Shape::ROWS - 1), high = Shape::ROWS;
          if (k < end) left.read(l[s][a], Turned ? k * high + row : row * Shape::DEPTH + k);
        }
      }
#pragma unroll
      for (int s = 0; s < Ahead; ++s)
#pragma unroll
        for (int a = 0; a < Tall; ++a)
#pragma unroll
          for (int w = 0; w < Width; ++w) sum[a][w] += l[s][a][0] * r[s][w];
    }
  if constexpr (Team > 1) {
    float* const parts = room + warp / Team * Team * Tall * STRIP;
#pragma unroll
    for (int a = 0; a < Tall; ++a) store(parts + (part * Tall + a) * STRIP + lane * Width, sum[a]);
    __syncthreads();
#pragma unroll
    for (int j = 0; j < RESULTS; ++j) {
      long long row, c;
      if (place(j, row, c)) {
        float one[1] = {};
#pragma unroll
        for (int p = 0; p < Team; ++p) one[0] += parts[p * Tall * STRIP + (j * Team + part) * 32 + lane];
        last.finish(one, row, c, extras[j]);
      }
    }
  } else {
#pragma unroll
    for (int j = 0; j < RESULTS; ++j) {
      long long row, c;
      if (place(j, row, c)) last.finish(sum[j], row, c, extras[j]);
    }
  }
}
"""
