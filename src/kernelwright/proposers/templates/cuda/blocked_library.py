"""CUDA for large products: tiles that a block keeps in registers while panels of both operands stream through."""

from __future__ import annotations

COPIES = """\
// Copies `Width` floats to shared memory without passing through registers, or puts zeros there.
template <int Width>
__device__ inline void copy_async(float* to, const float* from, const bool inside) {
  const unsigned given = inside ? Width * 4 : 0;
  const auto place = __cvta_generic_to_shared(to);
  if constexpr (Width == 4)
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"l"(place), "l"(from), "r"(given) : "memory");
  else if constexpr (Width == 2)
    asm volatile("cp.async.ca.shared.global [%0], [%1], 8, %2;" ::"l"(place), "l"(from), "r"(given) : "memory");
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"l"(place), "l"(from), "r"(given) : "memory");
}
__device__ inline void close_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int Open>
__device__ inline void wait_for_copies() { asm volatile("cp.async.wait_group %0;" ::"n"(Open) : "memory"); }
"""

BLOCKED = """\
// Where in shared memory the tensor cores may read by themselves: at a whole number of 1024 bytes.
__device__ __forceinline__ float* for_tensors(float* const room) {
  return room + (1024 - __cvta_generic_to_shared(room) % 1024) % 1024 / 4;
}

// Rows x Deep elements of an operand in shared memory, line by line as they lie in memory. Lines are as far apart as
// keeps the lanes that read together in different banks.
template <int Rows, int Deep, bool AlongDepth, int Width, int Threads>
struct Panel {
  static constexpr bool ALONG_DEPTH = AlongDepth;
  static constexpr int LINES = AlongDepth ? Rows : Deep, LENGTH = AlongDepth ? Deep : Rows;
  static constexpr int STRIDE = AlongDepth ? Deep + 4 : Rows + 8, FLOATS = LINES * STRIDE;
  static constexpr int WIDTH = Width, EACH = LENGTH / Width, COPIES = LINES * EACH / Threads;
  static_assert(LINES * EACH % Threads == 0, "every thread copies as much");

  // What a thread copies as number `i`: of which line, and from where on in it.
  static __device__ __forceinline__ int line(const int i) { return (i * Threads + threadIdx.x) / EACH; }
  static __device__ __forceinline__ int along(const int i) { return (i * Threads + threadIdx.x) % EACH * Width; }

  // Of All x Depth elements, those from (first, start) on. Where no panel reaches beyond them, nothing is compared.
  template <int All, int Depth>
  static __device__ __forceinline__ void fetch(
      float* const to, const float* const from, const int first, const int start) {
    constexpr bool WHOLE = All % Rows == 0 && Depth % Deep == 0;
#pragma unroll
    for (int i = 0; i < COPIES; ++i) {
      const int row = first + (AlongDepth ? line(i) : along(i)), k = start + (AlongDepth ? along(i) : line(i));
      const bool inside = WHOLE || (row < All && k < Depth);
      const long long place = AlongDepth ? 1ll * row * Depth + k : 1ll * k * All + row;
      copy_async<Width>(to + line(i) * STRIDE + along(i), inside ? from + place : from, inside);
    }
  }
  static __device__ __forceinline__ const float* place(const float* const panel, const int row, const int k) {
    return panel + (AlongDepth ? row * STRIDE + k : k * STRIDE + row);
  }
};

// Blocks go over all steps of all tiles in equal shares. A tile that several of them have a part in is put together, in
// order, by the one that is done last.
template <class Shape, class Core, int Stages, bool Shared, class Last>
__device__ __forceinline__ void blocked(
    const int block, const int blocks, const float* const left, const float* const right, float* const sums,
    unsigned* const came, const Last& last) {
  extern __shared__ __align__(16) float room[];
  float* const stages = Core::PARTS > 0 ? for_tensors(room) + Core::PARTS : room;
  using Left = typename Core::Left;
  using Right = typename Core::Right;
  constexpr int STAGE = Left::FLOATS + Right::FLOATS;
  constexpr int ELEMENTS = Core::ROWS * Core::COLS, COUNT = ELEMENTS / Core::THREADS;
  constexpr int STEPS = (Shape::DEPTH + Core::DEEP - 1) / Core::DEEP, GROUP = 8;
  constexpr int DOWN = (Shape::ROWS + Core::ROWS - 1) / Core::ROWS;
  constexpr int ACROSS = (Shape::COLS + Core::COLS - 1) / Core::COLS;
  constexpr long long ALL = static_cast<long long>(DOWN) * ACROSS * STEPS;
  const long long end = Shared ? ALL * (block + 1) / blocks : (block + 1ll) * STEPS;
  for (long long at = Shared ? ALL * block / blocks : static_cast<long long>(block) * STEPS; at < end;) {
    const int tile = static_cast<int>(at / STEPS), from = static_cast<int>(at % STEPS);
    const int to = from + static_cast<int>(min(static_cast<long long>(STEPS - from), end - at));
    at += to - from;
    // Tiles that run at the same time share panels: eight rows of tiles at a time, column by column.
    const int high = min(GROUP, DOWN - tile / (GROUP * ACROSS) * GROUP), within = tile % (GROUP * ACROSS);
    const int top = (tile / (GROUP * ACROSS) * GROUP + within % high) * Core::ROWS, first = within / high * Core::COLS;
    const auto staged = [&](const int step) { return stages + step % Stages * STAGE; };
    const auto fetch = [&](const int step) {
      if (step < to) {
        float* const stage = staged(step);
        Left::template fetch<Shape::ROWS, Shape::DEPTH>(stage, left, top, step * Core::DEEP);
        Right::template fetch<Shape::COLS, Shape::DEPTH>(stage + Left::FLOATS, right, first, step * Core::DEEP);
      }
      close_copies();
    };
    Core core;
#pragma unroll
    for (int s = 0; s < Stages - 1; ++s) fetch(from + s);
    if constexpr (Core::PARTS > 0) {
      core.template run<Stages>(from, to, fetch, staged, for_tensors(room));
    } else {
      for (int step = from; step < to; ++step) {
        wait_for_copies<Stages - 2>();
        __syncthreads();
        fetch(step + Stages - 1);
        core.step(staged(step), staged(step) + Left::FLOATS);
      }
    }
    __syncthreads();
    if (Shared && to - from < STEPS) {
      const long long begin = static_cast<long long>(tile) * STEPS;
      const auto owner = [&](const long long step) { return static_cast<int>(((step + 1) * blocks - 1) / ALL); };
      const int one = owner(begin), other = owner(begin + STEPS - 1);
      const auto part = [&](const int of) {  // a block leaves at most two tiles unfinished: its first and its last
        return sums + (2ll * of + (ALL * of / blocks > begin ? 0 : 1)) * ELEMENTS + 4 * threadIdx.x;
      };
      float* const mine = part(block);
#pragma unroll
      for (int i = 0; i < COUNT; i += 4)
        *reinterpret_cast<float4*>(mine + i * Core::THREADS) = *reinterpret_cast<const float4*>(core.sum + i);
      if (!last_to_come(came + tile, other - one + 1)) continue;
#pragma unroll
      for (int i = 0; i < COUNT; ++i) core.sum[i] = 0.0f;
      for (int of = one; of <= other; ++of) {
        const float* const theirs = part(of);
#pragma unroll
        for (int i = 0; i < COUNT; i += 4) {
          const float4 v = __ldcg(reinterpret_cast<const float4*>(theirs + i * Core::THREADS));
          core.sum[i] += v.x, core.sum[i + 1] += v.y, core.sum[i + 2] += v.z, core.sum[i + 3] += v.w;
        }
      }
    }
    // `Core::RUN` neighbouring elements of a row at a time, where all rows are aligned for it.
    constexpr int RUN = Shape::COLS % Core::RUN == 0 ? Core::RUN : 1;
#pragma unroll
    for (int i = 0; i < COUNT; i += RUN) {
      const long long row = top + Core::row(i), c = first + Core::col(i);
      if (row < Shape::ROWS && c < Shape::COLS) {
        float run[RUN];
        decltype(last.extra(0, 0)) extras[RUN];
#pragma unroll
        for (int j = 0; j < RUN; ++j) run[j] = core.sum[i + j], extras[j] = last.extra(row, c + j);
        last.finish(run, row, c, extras);
      }
    }
  }
}
"""
