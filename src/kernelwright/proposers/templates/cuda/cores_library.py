"""CUDA for what a block does with two panels in shared memory: on the float units, or on the tensor cores."""

from __future__ import annotations

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
  static __device__ __forceinline__ void read(
      float (&to)[Count][4], const float* const panel, const int thread, const int k) {
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
  template <class Shape, int Stages, class... Given>
  __device__ __forceinline__ void run(const Given... given) {
    through_stages<Shape, Stages>(*this, given...);
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
// 16 rows of a panel and 8 columns of the depth in four quarters: those of the same columns come first if `by_rows`.
template <class P>
__device__ __forceinline__ void read_quarters(
    unsigned (&to)[4], const float* const panel, const int from, const int k, const bool by_rows) {
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
__device__ __forceinline__ void multiply_tf32(float (&sum)[4], const unsigned (&l)[4], const unsigned (&r)[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %11, %12, %13};"
      : "=f"(sum[0]), "=f"(sum[1]), "=f"(sum[2]), "=f"(sum[3])
      : "r"(l[0]), "r"(l[1]), "r"(l[2]), "r"(l[3]), "r"(r[0]), "r"(r[1]),
        "f"(sum[0]), "f"(sum[1]), "f"(sum[2]), "f"(sum[3]));
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
  static __device__ __forceinline__ int row(const int i) {
    return top() + i / 4 / SIDES * 16 + i % 4 / 2 * 8 + threadIdx.x % 32 / 4;
  }
  static __device__ __forceinline__ int col(const int i) {
    return first() + i / 4 % SIDES * 8 + threadIdx.x % 4 * 2 + i % 2;
  }

  template <class Shape, int Stages, class... Given>
  __device__ __forceinline__ void run(const Given... given) {
    through_stages<Shape, Stages>(*this, given...);
  }
  __device__ __forceinline__ void step(const float* const left, const float* const right) {
    float fresh[DOWNS][SIDES][4] = {};
#pragma unroll
    for (int k = 0; k < Deep; k += 8) {
      unsigned big_l[DOWNS][4], small_l[DOWNS][4], big_r[SIDES][2], small_r[SIDES][2];
#pragma unroll
      for (int i = 0; i < DOWNS; ++i) {
        unsigned raw[4];
        read_quarters<L>(raw, left, top() + i * 16, k, true);
#pragma unroll
        for (int e = 0; e < 4; ++e) parted(__uint_as_float(raw[e]), big_l[i][e], small_l[i][e]);
      }
#pragma unroll
      for (int j = 0; j < SIDES; j += 2) {
        unsigned raw[4];
        read_quarters<R>(raw, right, first() + j * 8, k, false);
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
