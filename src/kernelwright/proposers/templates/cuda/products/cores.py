"""CUDA for what a block does with two panels in shared memory: on the float units, or on tensor cores.

On Hopper four warps feed a tensor core together, and it reads one operand by itself.
"""

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


WIDTHS = (128, 96, 64, 32)

_HEAD = """\
// 64 x Wide products of depth 8 by a warpgroup: the left operand in registers, the right one in shared memory. Unless
// `more`, what was in the sums is dropped.
template <int Wide>
struct Products;
"""

_CORE = """\
// The tensor cores are at work between the first of these and the last; registers that they use must rest meanwhile.
__device__ __forceinline__ void open_products() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void close_products() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int Count>
__device__ __forceinline__ void wait_for_products(float (&sums)[Count]) {
  asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
#pragma unroll
  for (int i = 0; i < Count; ++i) asm volatile("" : "+f"(sums[i])::"memory");  // none is read before
}
// What was stored is there for the tensor cores, which read past the usual ways; a barrier must follow.
// Of shared memory alone: for all memory it would be a fence of the whole GPU.
__device__ __forceinline__ void show_to_tensors() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// Where in shared memory they may read: from a whole number of 1024 bytes on.
__device__ __forceinline__ float* for_tensors(float* const room) {
  return room + (1024 - __cvta_generic_to_shared(room) % 1024) % 1024 / 4;
}
// Lines of 32 floats for the tensor cores: pieces of 16 bytes change places by the number of the line.
__device__ __forceinline__ int swizzled(const int line, const int k) {
  return line * 32 + (k / 4 ^ line % 8) * 4 + k % 4;
}
__device__ __forceinline__ unsigned long long described(const float* const from) {
  const unsigned long long address = __cvta_generic_to_shared(from);
  return (address & 0x3ffff) >> 4 | 1ull << 16 | 64ull << 32 | 1ull << 62;
}

// Of All x Depth elements, what a lane multiplies of 16 rows and 32 columns of the depth, straight from memory: of two
// rows, eight neighbours. Which columns a product of depth 8 takes does not matter, if both operands agree on it.
template <bool AlongDepth, int Width, int All, int Depth>
struct Fragments {
  const float* lines[2];
  __device__ __forceinline__ Fragments(const float* const from, const int first) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const long long row = min(first + 8 * i + static_cast<int>(threadIdx.x) % 32 / 4, All - 1);
      lines[i] = from + row * (AlongDepth ? Depth : 1);
    }
  }
  __device__ __forceinline__ void read(float (&to)[2][8], const int start) const {
    const int k = start + threadIdx.x % 4 * 8;
#pragma unroll
    for (int i = 0; i < 2; ++i)
#pragma unroll
      for (int j = 0; j < 8; j += AlongDepth ? Width : 1) {
        alignas(16) float v[AlongDepth ? Width : 1] = {};
        if (Depth % 32 == 0 || k + j < Depth) load(v, lines[i] + (k + j) * (AlongDepth ? 1ll : All));
#pragma unroll
        for (int e = 0; e < (AlongDepth ? Width : 1); ++e) to[i][j + e] = v[e];
      }
  }
};

// What a thread brings to shared memory of `Lines` lines and 32 columns of the depth, so that lanes use all banks.
template <bool AlongDepth, int Width, int All, int Depth, int Lines, int Threads>
struct Share {
  static constexpr int WIDTH = AlongDepth ? Width : 1, EACH = 32 / WIDTH, COUNT = Lines * EACH / Threads;
  const float* from;
  int first;
  static __device__ __forceinline__ int line(const int i) {
    if (AlongDepth) return (i * Threads + threadIdx.x) / EACH;
    return (i * (Threads / 32) + threadIdx.x / 32) % (Lines / 8) * 8 + threadIdx.x % 8;
  }
  static __device__ __forceinline__ int deep(const int i) {
    if (AlongDepth) return (i * Threads + threadIdx.x) % EACH * WIDTH;
    return threadIdx.x % 32 / 8 * 8 + (i * (Threads / 32) + threadIdx.x / 32) / (Lines / 8);
  }
  __device__ __forceinline__ void read(float (&to)[COUNT][WIDTH], const int start) const {
#pragma unroll
    for (int i = 0; i < COUNT; ++i) {
      const int k = start + deep(i);
      const long long row = min(first + line(i), All - 1);
      alignas(16) float v[WIDTH] = {};
      if (Depth % 32 == 0 || k < Depth) load(v, from + (AlongDepth ? row * Depth + k : 1ll * k * All + row));
      copy(to[i], v);
    }
  }
  // Parted, where product number k % 8 / 2 finds it.
  static __device__ __forceinline__ void write(float* const big, float* const small, const float (&v)[COUNT][WIDTH]) {
#pragma unroll
    for (int i = 0; i < COUNT; ++i)
#pragma unroll
      for (int e = 0; e < WIDTH; ++e) {
        const int k = deep(i) + e, at = swizzled(line(i), k % 8 / 2 * 8 + k % 2 * 4 + k / 8);
        unsigned parts[2];
        parted(v[i][e], parts[0], parts[1]);
        big[at] = __uint_as_float(parts[0]), small[at] = __uint_as_float(parts[1]);
      }
    show_to_tensors();
  }
};

// A tile whose warpgroups have 64 rows each, in three TF32 products. The right operand is parted into shared memory one
// step ahead, while the tensor cores are at the step before. They round sums towards zero, so each step starts from
// nothing, and the float units add the steps up.
template <bool LeftAlongDepth, int LeftWidth, bool RightAlongDepth, int RightWidth, int Tall, int Wide>
struct GroupCore {
  static constexpr int ROWS = Tall, COLS = Wide, DEEP = 32, THREADS = 2 * Tall, RUN = 2;
  static constexpr int PART = Wide * DEEP;
  alignas(16) float sum[Wide / 2] = {};

  static __device__ __forceinline__ int top() { return threadIdx.x / 32 * 16; }
  static __device__ __forceinline__ int row(const int i) { return top() + i % 4 / 2 * 8 + threadIdx.x % 32 / 4; }
  static __device__ __forceinline__ int col(const int i) { return i / 4 * 8 + threadIdx.x % 4 * 2 + i % 2; }

  template <class Shape, int Stages>
  __device__ __forceinline__ void run(
      const float* const left, const float* const right, const int above, const int first, const int from, const int to,
      float* const room) {
    using Lefts = Fragments<LeftAlongDepth, LeftWidth, Shape::ROWS, Shape::DEPTH>;
    using Rights = Share<RightAlongDepth, RightWidth, Shape::COLS, Shape::DEPTH, Wide, THREADS>;
    const Lefts lefts(left, above + top());
    const Rights rights{right, first};
    const auto place = [&](const int step) { return for_tensors(room) + step % 2 * 2 * PART; };
    float l[2][8], r[Rights::COUNT][Rights::WIDTH];
    rights.read(r, from * DEEP);
    lefts.read(l, from * DEEP);
    Rights::write(place(from), place(from) + PART, r);
    if (from + 1 < to) rights.read(r, (from + 1) * DEEP);
    for (int step = from; step < to; ++step) {
      __syncthreads();
      const unsigned long long big_r = described(place(step)), small_r = described(place(step) + PART);
      float fresh[Wide / 2] = {};
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        unsigned big[4], small[4];
#pragma unroll
        for (int e = 0; e < 4; ++e) parted(l[e % 2][2 * k + e / 2], big[e], small[e]);
        open_products();
        Products<Wide>::add(fresh, small, big_r + 2 * k, k > 0);
        Products<Wide>::add(fresh, big, small_r + 2 * k, 1);
        Products<Wide>::add(fresh, big, big_r + 2 * k, 1);
      }
      close_products();
      if (step + 1 < to) {
        lefts.read(l, (step + 1) * DEEP);
        Rights::write(place(step + 1), place(step + 1) + PART, r);
      }
      if (step + 2 < to) rights.read(r, (step + 2) * DEEP);
      wait_for_products(fresh);
#pragma unroll
      for (int i = 0; i < Wide / 2; ++i) sum[i] += fresh[i];
    }
  }
};
"""


def _products(wide: int) -> str:
    count = wide // 2
    names, sums = [f"%{i}" for i in range(count)], [f'"+f"(sum[{i}])' for i in range(count)]
    lines = [
        "template <>",
        f"struct Products<{wide}> {{",
        "  static __device__ __forceinline__ void add(",
        f"      float (&sum)[{count}], const unsigned (&left)[4], const unsigned long long right, const int more) {{",
        "    asm volatile(",
        f'        "{{ .reg .pred p; setp.ne.b32 p, %{count + 5}, 0; "',
        f'        "wgmma.mma_async.sync.aligned.m64n{wide}k8.f32.tf32.tf32 {{"',
        *(f'        "{", ".join(names[at : at + 16])}{", " if at + 16 < count else ""}"' for at in range(0, count, 16)),
        f'        "}}, {{{", ".join(f"%{count + i}" for i in range(4))}}}, %{count + 4}, p, 1, 1; }}"',
        *(
            f"        {':' if at == 0 else ' '} {', '.join(sums[at : at + 8])}{',' if at + 8 < count else ''}"
            for at in range(0, count, 8)
        ),
        '        : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "l"(right), "r"(more));',
        "  }",
        "};",
    ]
    return "".join(f"{line}\n" for line in lines)


GROUPS = _HEAD + "".join(_products(wide) for wide in WIDTHS) + "\n" + _CORE
