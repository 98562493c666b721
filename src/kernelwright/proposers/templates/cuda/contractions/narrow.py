"""CUDA for products of 16-bit operands with float sums: warp by warp, or on Hopper by warpgroups from shared memory."""

from __future__ import annotations

WIDTHS = (256, 128, 64)  # columns of a tile of warpgroups
DEEP = 64  # of a step of warpgroups: a line of 128 bytes
_NAMES = {"bfloat16": ("__nv_bfloat16", "bf16"), "float16": ("__half", "f16")}

NARROW_CHOICE = f"""\
def narrow_tile_for(rows, cols, steps):
    # The width that takes the least time: a step of a tile costs its columns, and as much as 64 for its rows.
    high = 128 if rows > 64 else 64

    def rounds(tiles):
        if sharers(steps) == 1:
            return ceil(tiles, kw.device.multiprocessors)
        return tiles / min(kw.device.multiprocessors, tiles * sharers(steps))

    tiles = {{wide: ceil(rows, high) * ceil(cols, wide) for wide in {WIDTHS}}}
    return high, min(tiles, key=lambda wide: rounds(tiles[wide]) * (wide + 64))
"""

STORES = """\
// Neighbours that are kept in fewer bits than a float has.
template <class Element, int Run>
__device__ __forceinline__ void store_narrow(Element* const to, const float (&from)[Run]) {
  struct __align__(sizeof(Element) * Run) { Element all[Run]; } made;
#pragma unroll
  for (int j = 0; j < Run; ++j) made.all[j] = Element(from[j]);
  *reinterpret_cast<decltype(made)*>(to) = made;
}
"""


def warps(dtype: str) -> str:
    """A tile whose warps have Tall x Wide elements each."""
    kind, short = _NAMES[dtype]
    return (
        f"""\
__device__ __forceinline__ void multiply_narrow(
    float (&sum)[4], const unsigned (&l)[4], const unsigned (&r)[2], {kind}) {{
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.{short}.{short}.f32 "
      "{{%0, %1, %2, %3}}, {{%4, %5, %6, %7}}, {{%8, %9}}, {{%10, %11, %12, %13}};"
"""
        """\
      : "=f"(sum[0]), "=f"(sum[1]), "=f"(sum[2]), "=f"(sum[3])
      : "r"(l[0]), "r"(l[1]), "r"(l[2]), "r"(l[3]), "r"(r[0]), "r"(r[1]),
        "f"(sum[0]), "f"(sum[1]), "f"(sum[2]), "f"(sum[3]));
}
"""
    )


WARP_CORE = """\
// 16 rows of a panel and 16 columns of the depth in four quarters: those of the same columns come first if `by_rows`.
template <class P>
__device__ __forceinline__ void read_narrow(
    unsigned (&to)[4], const float* const panel, const int from, const int k, const bool by_rows) {
  const int lane = threadIdx.x % 32, one = lane / 8 % 2 * 8, other = lane / 16 * 8, within = lane % 8;
  const int down = by_rows ? one : other, deep = by_rows ? other : one;
  if constexpr (P::ALONG_DEPTH) {
    const auto place = __cvta_generic_to_shared(P::place(panel, from + down + within, k + deep));
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3]) : "l"(place) : "memory");
  } else {
    const auto place = __cvta_generic_to_shared(P::place(panel, from + down, k + deep + within));
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3]) : "l"(place) : "memory");
  }
}

template <class L, class R, int Rows, int Cols, int Deep, int Tall, int Wide>
struct NarrowCore {
  using Left = L;
  using Right = R;
  static constexpr int ROWS = Rows, COLS = Cols, DEEP = Deep, ACROSS = Cols / Wide;
  static constexpr int THREADS = Rows / Tall * ACROSS * 32, DOWNS = Tall / 16, SIDES = Wide / 8;
  alignas(16) float sum[DOWNS * SIDES * 4] = {};

  static __device__ __forceinline__ int top() { return threadIdx.x / 32 / ACROSS * Tall; }
  static __device__ __forceinline__ int first() { return threadIdx.x / 32 % ACROSS * Wide; }
  static __device__ __forceinline__ int row(const int i) {
    return top() + i / 4 / SIDES * 16 + i % 4 / 2 * 8 + threadIdx.x % 32 / 4;
  }
  static __device__ __forceinline__ int col(const int i) {
    return first() + i / 4 % SIDES * 8 + threadIdx.x % 4 * 2 + i % 2;
  }
  __device__ __forceinline__ void step(const float* const left, const float* const right) {
#pragma unroll
    for (int k = 0; k < Deep; k += 16) {
      unsigned l[DOWNS][4], r[SIDES][2];
#pragma unroll
      for (int i = 0; i < DOWNS; ++i) read_narrow<L>(l[i], left, top() + i * 16, k, true);
#pragma unroll
      for (int j = 0; j < SIDES; j += 2) {
        unsigned raw[4];
        read_narrow<R>(raw, right, first() + j * 8, k, false);
#pragma unroll
        for (int e = 0; e < 4; ++e) r[j + e / 2][e % 2] = raw[e];
      }
#pragma unroll
      for (int i = 0; i < DOWNS; ++i)
#pragma unroll
        for (int j = 0; j < SIDES; ++j)
          multiply_narrow(reinterpret_cast<float (&)[4]>(sum[(i * SIDES + j) * 4]), l[i], r[j],
                          typename L::Element());
    }
  }
};
"""

GROUP_CORE = """\
// Rows x 64 elements of a 16-bit operand where tensor cores read them by themselves: lines of 128 bytes, whose pieces
// of 16 bytes change places by the number of the line. A line is a row, or 64 rows at one place of the depth.
template <class Operand, int Rows, int All, int Depth, int Threads>
struct Lined {
  using Element = typename Operand::Element;
  static constexpr bool ALONG_DEPTH = Operand::ALONG_DEPTH;
  static constexpr int DEEP = 64, WIDTH = Operand::WIDTH, FLOATS = Rows * DEEP / 2;
  static constexpr int LINES = ALONG_DEPTH ? Rows : DEEP, EACH = (ALONG_DEPTH ? DEEP : Rows) / WIDTH;
  static constexpr bool WHOLE = All % Rows == 0 && Depth % DEEP == 0;
  static_assert(LINES * EACH % Threads == 0, "every thread copies as much");

  static __device__ __forceinline__ void fetch(
      float* const room, const Operand& operand, const int first, const int start) {
    Element* const to = reinterpret_cast<Element*>(room);
#pragma unroll(WIDTH == 1 ? 8 : LINES * EACH / Threads)
    for (int i = 0; i < LINES * EACH / Threads; ++i) {
      const int t = i * Threads + threadIdx.x % Threads, line = t / EACH, at = t % EACH * WIDTH;
      const auto* const from = operand.template at<WHOLE>(
          first + (ALONG_DEPTH ? line : at), start + (ALONG_DEPTH ? at : line));
      const int place = at / 64 * 64 * DEEP + line * 64 + (at % 64 / 8 ^ line % 8) * 8 + at % 8;
      copy_piece<WIDTH>(to + place, from ? from : operand.from, from != nullptr);
    }
  }
  // For product number `part` of the step, from row `first` on, which is a whole number of 64.
  static __device__ __forceinline__ unsigned long long describe(
      const float* const room, const int first, const int part) {
    const unsigned long long address = __cvta_generic_to_shared(room) + first * 128 + part * (ALONG_DEPTH ? 32 : 2048);
    const unsigned long long leading = ALONG_DEPTH ? 1 : 512;
    return (address & 0x3ffff) >> 4 | leading << 16 | 64ull << 32 | 1ull << 62;
  }
};

// A tile whose warpgroups have 64 rows each, operands in shared memory. The products of a step are asked for before
// those of the step before are waited for, so that the tensor cores always have work.
template <class LeftOperand, class RightOperand, int Tall, int Wide, int Stages, int All, int Across, int Depth>
struct NarrowGroupCore {
  static constexpr int ROWS = Tall, COLS = Wide, DEEP = 64, THREADS = 2 * Tall;
  using Lefts = Lined<LeftOperand, Tall, All, Depth, THREADS>;
  using Rights = Lined<RightOperand, Wide, Across, Depth, THREADS>;
  alignas(16) float sum[Wide / 2] = {};

  static __device__ __forceinline__ int row(const int i) {
    return threadIdx.x / 32 * 16 + i % 4 / 2 * 8 + threadIdx.x % 32 / 4;
  }
  static __device__ __forceinline__ int col(const int i) { return i / 4 * 8 + threadIdx.x % 4 * 2 + i % 2; }

  __device__ __forceinline__ void go(
      const LeftOperand& left, const RightOperand& right, const int top, const int first, const int from, const int to,
      float* const room) {
    float* const whole = for_tensors(room);
    const auto staged = [&](const int step) { return whole + step % Stages * (Lefts::FLOATS + Rights::FLOATS); };
    const auto fetch = [&](const int step) {
      if (step < to) {
        Lefts::fetch(staged(step), left, top, step * DEEP);
        Rights::fetch(staged(step) + Lefts::FLOATS, right, first, step * DEEP);
      }
      close_copies();
    };
#pragma unroll
    for (int s = 0; s < Stages - 2; ++s) fetch(from + s);
    for (int step = from; step < to; ++step) {
      wait_for_copies<Stages - 3>();
      show_to_tensors();
      __syncthreads();
      open_products();
#pragma unroll
      for (int part = 0; part < DEEP / 16; ++part)
        NarrowProducts<Wide>::template add<!Lefts::ALONG_DEPTH, !Rights::ALONG_DEPTH>(
            sum, Lefts::describe(staged(step), threadIdx.x / 128 * 64, part),
            Rights::describe(staged(step) + Lefts::FLOATS, 0, part));
      close_products();
      fetch(step + Stages - 2);
      asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");
    }
    wait_for_products(sum);
    wait_for_copies<0>();
  }
};
"""


def groups(dtype: str) -> str:
    """What a warpgroup multiplies at once: 64 x Wide sums over 16 products."""
    return "template <int Wide>\nstruct NarrowProducts;\n" + "".join(_products(wide, dtype) for wide in WIDTHS)


def _products(wide: int, dtype: str) -> str:
    count, short = wide // 2, _NAMES[dtype][1]
    names, sums = [f"%{i}" for i in range(count)], [f'"+f"(sum[{i}])' for i in range(count)]
    lines = [
        "template <>",
        f"struct NarrowProducts<{wide}> {{",
        "  template <bool LeftTurned, bool RightTurned>",
        "  static __device__ __forceinline__ void add(",
        f"      float (&sum)[{count}], const unsigned long long left, const unsigned long long right) {{",
        "    asm volatile(",
        f'        "{{ .reg .pred p; setp.ne.b32 p, %{count + 2}, 0; "',
        f'        "wgmma.mma_async.sync.aligned.m64n{wide}k16.f32.{short}.{short} {{"',
        *(f'        "{", ".join(names[at : at + 16])}{", " if at + 16 < count else ""}"' for at in range(0, count, 16)),
        f'        "}}, %{count}, %{count + 1}, p, 1, 1, %{count + 3}, %{count + 4}; }}"',
        *(
            f"        {':' if at == 0 else ' '} {', '.join(sums[at : at + 8])}{',' if at + 8 < count else ''}"
            for at in range(0, count, 8)
        ),
        '        : "l"(left), "l"(right), "r"(1), "n"(int(LeftTurned)), "n"(int(RightTurned)));',
        "  }",
        "};",
    ]
    return "".join(f"{line}\n" for line in lines)
