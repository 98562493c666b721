"""CUDA for products that are over before memory has answered twice: every load is issued before the first is used."""

from __future__ import annotations

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
