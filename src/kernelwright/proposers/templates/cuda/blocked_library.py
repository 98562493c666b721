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
// Rows x Deep elements of an operand in shared memory, line by line as they lie in memory. Lines are as far apart as
// keeps the lanes that read together in different banks.
template <int Rows, int Deep, bool AlongDepth, int Width, int Threads>
struct Panel {
  static constexpr bool ALONG_DEPTH = AlongDepth;
  static constexpr int LINES = AlongDepth ? Rows : Deep, LENGTH = AlongDepth ? Deep : Rows;
  static constexpr int STRIDE = AlongDepth ? Deep + 4 : Rows + 8, FLOATS = LINES * STRIDE;

  // Of All x Depth elements, those from (first, start) on. Where no panel reaches beyond them, nothing is compared.
  template <int All, int Depth>
  static __device__ __forceinline__ void fetch(
      float* const to, const float* const from, const int first, const int start) {
    constexpr int EACH = LENGTH / Width;
    constexpr bool WHOLE = All % Rows == 0 && Depth % Deep == 0;
    static_assert(LINES * EACH % Threads == 0, "every thread copies as much");
#pragma unroll
    for (int i = 0; i < LINES * EACH / Threads; ++i) {
      const int t = i * Threads + threadIdx.x, line = t / EACH, at = t % EACH * Width;
      const int row = first + (AlongDepth ? line : at), k = start + (AlongDepth ? at : line);
      const bool inside = WHOLE || (row < All && k < Depth);
      const long long place = AlongDepth ? 1ll * row * Depth + k : 1ll * k * All + row;
      copy_async<Width>(to + line * STRIDE + at, inside ? from + place : from, inside);
    }
  }
  static __device__ __forceinline__ const float* place(const float* const panel, const int row, const int k) {
    return panel + (AlongDepth ? row * STRIDE + k : k * STRIDE + row);
  }
};

// Steps of a tile whose panels stream through shared memory: while one is multiplied, others are on their way.
template <class Shape, int Stages, class Core>
__device__ __forceinline__ void through_stages(
    Core& core, const float* const left, const float* const right, const int top, const int first, const int from,
    const int to, float* const room) {
  using Left = typename Core::Left;
  using Right = typename Core::Right;
  const auto staged = [&](const int step) { return room + step % Stages * (Left::FLOATS + Right::FLOATS); };
  const auto fetch = [&](const int step) {
    if (step < to) {
      Left::template fetch<Shape::ROWS, Shape::DEPTH>(staged(step), left, top, step * Core::DEEP);
      Right::template fetch<Shape::COLS, Shape::DEPTH>(staged(step) + Left::FLOATS, right, first, step * Core::DEEP);
    }
    close_copies();
  };
#pragma unroll
  for (int s = 0; s < Stages - 1; ++s) fetch(from + s);
  for (int step = from; step < to; ++step) {
    wait_for_copies<Stages - 2>();
    __syncthreads();
    fetch(step + Stages - 1);
    core.step(staged(step), staged(step) + Left::FLOATS);
  }
}

// Blocks go over all steps of all tiles in equal shares. A tile that several of them have a part in is put together, in
// order, by the one that is done last.
template <class Shape, class Core, int Stages, bool Shared, class Last>
__device__ __forceinline__ void blocked(
    const int block, const int blocks, const float* const left, const float* const right, float* const sums,
    unsigned* const came, const Last& last) {
  extern __shared__ __align__(16) float room[];
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
    Core core;
    core.template run<Shape, Stages>(left, right, top, first, from, to, room);
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
    if constexpr (RUN == 1 && Core::RUN == 2) {
      // Two by two would be one by one with gaps: by way of shared memory neighbours go to neighbours.
      constexpr int STRIDE = Core::COLS + 4;
#pragma unroll
      for (int i = 0; i < COUNT; ++i) room[Core::row(i) * STRIDE + Core::col(i)] = core.sum[i];
      __syncthreads();
#pragma unroll 8
      for (int t = threadIdx.x; t < ELEMENTS; t += Core::THREADS) {
        const int down = t / Core::COLS, across = t % Core::COLS;
        const long long row = top + down, c = first + across;
        if (row < Shape::ROWS && c < Shape::COLS) {
          const float one[1] = {room[down * STRIDE + across]};
          const decltype(last.extra(0, 0)) extras[1] = {last.extra(row, c)};
          last.finish(one, row, c, extras);
        }
      }
      __syncthreads();
    } else {
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
}
"""
