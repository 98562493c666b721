"""CUDA for large products: tiles that a block keeps in registers while panels of both operands stream through."""

from __future__ import annotations

COPIES = """\
// Copies `Width` floats to shared memory without passing through registers, or puts zeros there.
template <int Width>
__device__ inline void copy_async(float* to, const float* from, const bool inside) {
  const unsigned given = inside ? Width * 4 : 0;
  if constexpr (Width == 4)
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"l"(__cvta_generic_to_shared(to)), "l"(from), "r"(given) : "memory");
  else if constexpr (Width == 2)
    asm volatile("cp.async.ca.shared.global [%0], [%1], 8, %2;" ::"l"(__cvta_generic_to_shared(to)), "l"(from), "r"(given) : "memory");
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"l"(__cvta_generic_to_shared(to)), "l"(from), "r"(given) : "memory");
}
__device__ inline void close_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int Open>
__device__ inline void wait_for_copies() { asm volatile("cp.async.wait_group %0;" ::"n"(Open) : "memory"); }
"""

BLOCKED = """\
// Rows x Deep elements of an operand in shared memory, line by line as they lie in memory. Lines are as far apart as keeps
// the lanes that read together in different banks.
template <int Rows, int Deep, bool AlongDepth, int Width, int Threads>
struct Panel {
  static constexpr bool ALONG_DEPTH = AlongDepth;
  static constexpr int LINES = AlongDepth ? Rows : Deep, LENGTH = AlongDepth ? Deep : Rows;
  static constexpr int STRIDE = AlongDepth ? Deep + 4 : Rows + 8, FLOATS = LINES * STRIDE;

  static __device__ __forceinline__ void fetch(
      float* const to, const float* const from, const int first, const int rows, const int start, const int depth) {
    constexpr int EACH = LENGTH / Width;
    static_assert(LINES * EACH % Threads == 0, "every thread copies as much");
#pragma unroll
    for (int i = 0; i < LINES * EACH / Threads; ++i) {
      const int t = i * Threads + threadIdx.x, line = t / EACH, at = t % EACH * Width;
      const int row = first + (AlongDepth ? line : at), k = start + (AlongDepth ? at : line);
      const bool inside = row < rows && k < depth;
      const long long place = AlongDepth ? static_cast<long long>(row) * depth + k : static_cast<long long>(k) * rows + row;
      copy_async<Width>(to + line * STRIDE + at, inside ? from + place : from, inside);
    }
  }
  static __device__ __forceinline__ const float* place(const float* const panel, const int row, const int k) {
    return panel + (AlongDepth ? row * STRIDE + k : k * STRIDE + row);
  }
};

// Blocks go over all steps of all tiles in equal shares. A tile that several of them have a part in is put together, in
// order, by the one that is done last.
template <class Shape, class Core, int Stages, bool Shared, class Extra, class Finish>
__device__ __forceinline__ void blocked(
    const int block, const int blocks, const float* const left, const float* const right, float* const sums,
    unsigned* const came, const Extra& extra, const Finish& finish) {
  extern __shared__ __align__(16) float room[];
  using Left = typename Core::Left;
  using Right = typename Core::Right;
  constexpr int STAGE = Left::FLOATS + Right::FLOATS, ELEMENTS = Core::ROWS * Core::COLS, COUNT = ELEMENTS / Core::THREADS;
  constexpr int STEPS = (Shape::DEPTH + Core::DEEP - 1) / Core::DEEP, GROUP = 8;
  constexpr int DOWN = (Shape::ROWS + Core::ROWS - 1) / Core::ROWS, ACROSS = (Shape::COLS + Core::COLS - 1) / Core::COLS;
  constexpr long long ALL = static_cast<long long>(DOWN) * ACROSS * STEPS;
  const long long end = Shared ? ALL * (block + 1) / blocks : (block + 1ll) * STEPS;
  for (long long at = Shared ? ALL * block / blocks : static_cast<long long>(block) * STEPS; at < end;) {
    const int tile = static_cast<int>(at / STEPS), from = static_cast<int>(at % STEPS);
    const int to = from + static_cast<int>(min(static_cast<long long>(STEPS - from), end - at));
    at += to - from;
    // Tiles that run at the same time share panels: eight rows of tiles at a time, column by column.
    const int high = min(GROUP, DOWN - tile / (GROUP * ACROSS) * GROUP), within = tile % (GROUP * ACROSS);
    const int top = (tile / (GROUP * ACROSS) * GROUP + within % high) * Core::ROWS, first = within / high * Core::COLS;
    const auto fetch = [&](const int step) {
      if (step < to) {
        float* const stage = room + step % Stages * STAGE;
        Left::fetch(stage, left, top, Shape::ROWS, step * Core::DEEP, Shape::DEPTH);
        Right::fetch(stage + Left::FLOATS, right, first, Shape::COLS, step * Core::DEEP, Shape::DEPTH);
      }
      close_copies();
    };
    Core core;
#pragma unroll
    for (int s = 0; s < Stages - 1; ++s) fetch(from + s);
    for (int step = from; step < to; ++step) {
      wait_for_copies<Stages - 2>();
      __syncthreads();
      fetch(step + Stages - 1);
      const float* const stage = room + step % Stages * STAGE;
      core.step(stage, stage + Left::FLOATS);
    }
    __syncthreads();
    if (Shared && to - from < STEPS) {
      const long long begin = static_cast<long long>(tile) * STEPS;
      const int one = static_cast<int>(((begin + 1) * blocks - 1) / ALL), other = static_cast<int>(((begin + STEPS) * blocks - 1) / ALL);
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
        decltype(extra(0, 0)) extras[RUN];
#pragma unroll
        for (int j = 0; j < RUN; ++j) run[j] = core.sum[i + j], extras[j] = extra(row, c + j);
        finish(run, row, c, extras);
      }
    }
  }
}
"""

FLOATS = """\
// A tile on the float units: every thread has Tall x Wide elements.
template <class L, class R, int Rows, int Cols, int Deep, int Tall, int Wide>
struct FloatCore {
  using Left = L;
  using Right = R;
  static constexpr int ROWS = Rows, COLS = Cols, DEEP = Deep, DOWN = Rows / Tall, ACROSS = Cols / Wide;
  static constexpr int THREADS = DOWN * ACROSS, RUN = R::ALONG_DEPTH ? 1 : 4;
  alignas(16) float sum[Tall * Wide] = {};

  // Lanes are 4 x 8 of the threads of a tile.
  static __device__ __forceinline__ int y() { return threadIdx.x / 32 / (ACROSS / 8) * 4 + threadIdx.x % 32 / 8; }
  static __device__ __forceinline__ int x() { return threadIdx.x / 32 % (ACROSS / 8) * 8 + threadIdx.x % 8; }
  // Neighbours in shared memory belong to neighbouring threads, one by one or four by four.
  template <class P, int Apart>
  static __device__ __forceinline__ int spread(const int i, const int thread) {
    return P::ALONG_DEPTH ? i * Apart + thread : i / 4 * 4 * Apart + thread * 4 + i % 4;
  }
  static __device__ __forceinline__ int row(const int i) { return spread<L, DOWN>(i / Wide, y()); }
  static __device__ __forceinline__ int col(const int i) { return spread<R, ACROSS>(i % Wide, x()); }

  template <class P, int Apart, int Count>
  static __device__ __forceinline__ void read(float (&to)[Count][4], const float* const panel, const int thread, const int k) {
#pragma unroll
    for (int i = 0; i < Count; i += P::ALONG_DEPTH ? 1 : 4)
      if constexpr (P::ALONG_DEPTH) {
        load(to[i], P::place(panel, spread<P, Apart>(i, thread), k));
      } else {
#pragma unroll
        for (int d = 0; d < 4; ++d) {
          alignas(16) float four[4];
          load(four, P::place(panel, spread<P, Apart>(i, thread), k + d));
#pragma unroll
          for (int j = 0; j < 4; ++j) to[i + j][d] = four[j];
        }
      }
  }
  __device__ __forceinline__ void step(const float* const left, const float* const right) {
#pragma unroll
    for (int k = 0; k < Deep; k += 4) {
      alignas(16) float l[Tall][4], r[Wide][4];
      read<L, DOWN>(l, left, y(), k);
      read<R, ACROSS>(r, right, x(), k);
#pragma unroll
      for (int d = 0; d < 4; ++d)
#pragma unroll
        for (int i = 0; i < Tall * Wide; ++i) sum[i] += l[i / Wide][d] * r[i % Wide][d];
    }
  }
};
"""

TENSORS = """\
// Two TF32 numbers whose sum is a float to its last bit or two.
__device__ __forceinline__ void parted(const float v, unsigned& big, unsigned& small) {
  big = (__float_as_uint(v) + 0x1000u) & 0xffffe000u;
  small = __float_as_uint(v - __uint_as_float(big));
}
__device__ __forceinline__ void load_matrices(unsigned (&to)[4], const float* const row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3]) : "l"(__cvta_generic_to_shared(row)) : "memory");
}
__device__ __forceinline__ void multiply_tf32(float (&sum)[4], const unsigned (&l)[4], const unsigned (&r)[2]) {
  asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %11, %12, %13};"
               : "=f"(sum[0]), "=f"(sum[1]), "=f"(sum[2]), "=f"(sum[3])
               : "r"(l[0]), "r"(l[1]), "r"(l[2]), "r"(l[3]), "r"(r[0]), "r"(r[1]), "f"(sum[0]), "f"(sum[1]), "f"(sum[2]), "f"(sum[3]));
}

// A tile on the tensor cores: every warp has Tall x Wide elements. A tensor core rounds its sums towards zero, so each
// step starts from nothing, and the float units add the steps up.
template <class L, class R, int Rows, int Cols, int Deep, int Tall, int Wide>
struct TensorCore {
  using Left = L;
  using Right = R;
  static constexpr int ROWS = Rows, COLS = Cols, DEEP = Deep, ACROSS = Cols / Wide;
  static constexpr int THREADS = Rows / Tall * ACROSS * 32, RUN = 2, DOWNS = Tall / 16, SIDES = Wide / 8;
  alignas(16) float sum[DOWNS * SIDES * 4] = {};

  static __device__ __forceinline__ int top() { return threadIdx.x / 32 / ACROSS * Tall; }
  static __device__ __forceinline__ int first() { return threadIdx.x / 32 % ACROSS * Wide; }
  static __device__ __forceinline__ int row(const int i) { return top() + i / 4 / SIDES * 16 + i % 4 / 2 * 8 + threadIdx.x % 32 / 4; }
  static __device__ __forceinline__ int col(const int i) { return first() + i / 4 % SIDES * 8 + threadIdx.x % 4 * 2 + i % 2; }

  // A matrix of 16 rows and 8 columns of depth: rows and columns in halves, in the order in which `by_rows` counts them.
  template <class P>
  static __device__ __forceinline__ void read(unsigned (&to)[4], const float* const panel, const int from, const int k, const bool by_rows) {
    const int lane = threadIdx.x % 32;
    if constexpr (P::ALONG_DEPTH) {
      const int down = by_rows ? lane / 8 % 2 : lane / 16, deep = by_rows ? lane / 16 : lane / 8 % 2;
      load_matrices(to, P::place(panel, from + down * 8 + lane % 8, k + deep * 4));
    } else {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int down = by_rows ? i % 2 : i / 2, deep = by_rows ? i / 2 : i % 2;
        to[i] = __float_as_uint(*P::place(panel, from + down * 8 + lane / 4, k + deep * 4 + lane % 4));
      }
    }
  }
  __device__ __forceinline__ void step(const float* const left, const float* const right) {
    float fresh[DOWNS][SIDES][4] = {};
#pragma unroll
    for (int k = 0; k < Deep; k += 8) {
      unsigned big_l[DOWNS][4], small_l[DOWNS][4], big_r[SIDES][2], small_r[SIDES][2];
#pragma unroll
      for (int i = 0; i < DOWNS; ++i) {
        unsigned raw[4];
        read<L>(raw, left, top() + i * 16, k, true);
#pragma unroll
        for (int e = 0; e < 4; ++e) parted(__uint_as_float(raw[e]), big_l[i][e], small_l[i][e]);
      }
#pragma unroll
      for (int j = 0; j < SIDES; j += 2) {
        unsigned raw[4];
        read<R>(raw, right, first() + j * 8, k, false);
#pragma unroll
        for (int e = 0; e < 4; ++e) parted(__uint_as_float(raw[e]), big_r[j + e / 2][e % 2], small_r[j + e / 2][e % 2]);
      }
      // The same sum comes again only after all others have been begun.
#pragma unroll
      for (int i = 0; i < DOWNS; ++i)
#pragma unroll
        for (int j = 0; j < SIDES; ++j) multiply_tf32(fresh[i][j], small_l[i], big_r[j]);
#pragma unroll
      for (int i = 0; i < DOWNS; ++i)
#pragma unroll
        for (int j = 0; j < SIDES; ++j) multiply_tf32(fresh[i][j], big_l[i], small_r[j]);
#pragma unroll
      for (int i = 0; i < DOWNS; ++i)
#pragma unroll
        for (int j = 0; j < SIDES; ++j) multiply_tf32(fresh[i][j], big_l[i], big_r[j]);
    }
#pragma unroll
    for (int i = 0; i < DOWNS * SIDES * 4; ++i) sum[i] += fresh[i / 4 / SIDES][i / 4 % SIDES][i % 4];
  }
};
"""
