"""CUDA for tiles on Hopper's tensor cores, which four warps feed together and which read one operand by themselves."""

from __future__ import annotations

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
__device__ __forceinline__ void show_to_tensors() { asm volatile("fence.proxy.async;" ::: "memory"); }

// Lines of 32 floats for the tensor cores: pieces of 16 bytes change places by the number of the line.
__device__ __forceinline__ int swizzled(const int line, const int k) {
  return line * 32 + (k / 4 ^ line % 8) * 4 + k % 4;
}
__device__ __forceinline__ unsigned long long described(const float* const from) {
  const unsigned long long address = __cvta_generic_to_shared(from);
  return (address & 0x3ffff) >> 4 | 1ull << 16 | 64ull << 32 | 1ull << 62;
}

// A tile whose warpgroups have 64 rows each, in three TF32 products. The right operand is parted into shared memory one
// step ahead, while the tensor cores are at the step before. They round sums towards zero, so each step starts from
// nothing, and the float units add the steps up.
template <class L, class R, int Rows, int Cols>
struct GroupCore {
  using Left = L;
  using Right = R;
  static constexpr int ROWS = Rows, COLS = Cols, DEEP = 32, THREADS = 2 * Rows, RUN = 2;
  static constexpr int PART = Cols * DEEP, PARTS = 4 * PART;  // big and small ones, of two steps
  alignas(16) float sum[Cols / 2] = {};

  static __device__ __forceinline__ int top() { return threadIdx.x / 32 * 16; }
  static __device__ __forceinline__ int row(const int i) { return top() + i % 4 / 2 * 8 + threadIdx.x % 32 / 4; }
  static __device__ __forceinline__ int col(const int i) { return i / 4 * 8 + threadIdx.x % 4 * 2 + i % 2; }

  template <int Width>
  static __device__ __forceinline__ void store_parts(
      float* const to, const float (&v)[Width], const int line, const int k) {
    alignas(16) unsigned big[Width], small[Width];
#pragma unroll
    for (int j = 0; j < Width; ++j) parted(v[j], big[j], small[j]);
    using Whole = typename Vector<Width>::type;
    *reinterpret_cast<Whole*>(to + swizzled(line, k)) = *reinterpret_cast<const Whole*>(big);
    *reinterpret_cast<Whole*>(to + PART + swizzled(line, k)) = *reinterpret_cast<const Whole*>(small);
  }
  static __device__ __forceinline__ void part(float* const to, const float* const panel) {
    if constexpr (R::ALONG_DEPTH) {
      // A thread parts what it has copied itself, so nobody need wait.
#pragma unroll
      for (int i = 0; i < R::COPIES; ++i) {
        alignas(16) float v[R::WIDTH];
        load(v, R::place(panel, R::line(i), R::along(i)));
        store_parts(to, v, R::line(i), R::along(i));
      }
    } else {
      __syncthreads();
#pragma unroll
      for (int i = 0; i < Cols * 8 / THREADS; ++i) {
        const int t = i * THREADS + threadIdx.x, line = t % Cols, k = t / Cols * 4;
        alignas(16) float v[4];
#pragma unroll
        for (int j = 0; j < 4; ++j) v[j] = *R::place(panel, line, k + j);
        store_parts(to, v, line, k);
      }
    }
    show_to_tensors();
  }
  template <int Stages, class Fetch, class Staged>
  __device__ __forceinline__ void run(
      const int from, const int to, const Fetch& fetch, const Staged& staged, float* const parts) {
    wait_for_copies<Stages - 2>();
    part(parts + from % 2 * 2 * PART, staged(from) + L::FLOATS);
    for (int step = from; step < to; ++step) {
      __syncthreads();
      fetch(step + Stages - 1);
      const float* const here = parts + step % 2 * 2 * PART;
      const unsigned long long big_r = described(here), small_r = described(here + PART);
      float fresh[Cols / 2] = {};
#pragma unroll
      for (int k = 0; k < DEEP / 8; ++k) {
        unsigned raw[4], big[4], small[4];
        read_quarters<L>(raw, staged(step), top(), 8 * k, true);
#pragma unroll
        for (int e = 0; e < 4; ++e) parted(__uint_as_float(raw[e]), big[e], small[e]);
        open_products();
        Products<Cols>::add(fresh, small, big_r + 2 * k, k > 0);
        Products<Cols>::add(fresh, big, small_r + 2 * k, 1);
        Products<Cols>::add(fresh, big, big_r + 2 * k, 1);
      }
      close_products();
      wait_for_copies<Stages - 2>();
      if (step + 1 < to) part(parts + (step + 1) % 2 * 2 * PART, staged(step + 1) + L::FLOATS);
      wait_for_products(fresh);
#pragma unroll
      for (int i = 0; i < Cols / 2; ++i) sum[i] += fresh[i];
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
