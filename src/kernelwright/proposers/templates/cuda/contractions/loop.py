"""CUDA for a product in batches whose operands say themselves where an element lies, or that there is none.

An operand is a structure: `move(batch)`, and `at<Whole>(row, k)`, which is null where only padding is. `WIDTH`
neighbours along the depth, or across it, lie together and are inside together.
`last.place` tells where a result belongs.
"""

from __future__ import annotations

GATHERED = """\
// Rows x Deep elements of an operand in shared memory, lines as far apart as keeps the lanes that read together in
// different banks. Elements outside are zeros.
template <class Operand, int Rows, int Deep, int All, int Depth, int Threads>
struct Gathered {
  using Element = typename Operand::Element;
  static constexpr bool ALONG_DEPTH = Operand::ALONG_DEPTH;
  static constexpr int WIDTH = Operand::WIDTH, PIECE = 16 / sizeof(Element);
  static constexpr int LINES = ALONG_DEPTH ? Rows : Deep, LENGTH = ALONG_DEPTH ? Deep : Rows, EACH = LENGTH / WIDTH;
  static constexpr int STRIDE = LENGTH + (ALONG_DEPTH || sizeof(Element) == 2 ? PIECE : 8);
  static constexpr int FLOATS = LINES * STRIDE * sizeof(Element) / 4;
  static constexpr bool WHOLE = All % Rows == 0 && Depth % Deep == 0;
  static_assert(LINES * EACH % Threads == 0, "every thread copies as much");

  static __device__ __forceinline__ void fetch(
      float* const room, const Operand& operand, const int first, const int start) {
    Element* const to = reinterpret_cast<Element*>(room);
#pragma unroll
    for (int i = 0; i < LINES * EACH / Threads; ++i) {
      const int t = i * Threads + threadIdx.x, line = t / EACH, at = t % EACH * WIDTH;
      const auto* const from = operand.template at<WHOLE>(
          first + (ALONG_DEPTH ? line : at), start + (ALONG_DEPTH ? at : line));
      copy_piece<WIDTH>(to + line * STRIDE + at, from ? from : operand.from, from != nullptr);
    }
  }
  static __device__ __forceinline__ const Element* place(const float* const panel, const int row, const int k) {
    return reinterpret_cast<const Element*>(panel) + (ALONG_DEPTH ? row * STRIDE + k : k * STRIDE + row);
  }
};

// Steps of a tile whose panels stream through shared memory: while one is multiplied, others are on their way.
template <int Stages, class Core, class Left, class Right>
__device__ __forceinline__ void through_panels(
    Core& core, const Left& left, const Right& right, const int top, const int first, const int from, const int to,
    float* const room) {
  using Lefts = typename Core::Left;
  using Rights = typename Core::Right;
  const auto staged = [&](const int step) { return room + step % Stages * (Lefts::FLOATS + Rights::FLOATS); };
  const auto fetch = [&](const int step) {
    if (step < to) {
      Lefts::fetch(staged(step), left, top, step * Core::DEEP);
      Rights::fetch(staged(step) + Lefts::FLOATS, right, first, step * Core::DEEP);
    }
    close_copies();
  };
#pragma unroll
  for (int s = 0; s < Stages - 1; ++s) fetch(from + s);
  for (int step = from; step < to; ++step) {
    wait_for_copies<Stages - 2>();
    __syncthreads();
    fetch(step + Stages - 1);
    core.step(staged(step), staged(step) + Lefts::FLOATS);
  }
  wait_for_copies<0>();
}
// As above, for a core with operands of its own.
template <int Stages, class Core>
struct Staged : Core {
  template <class Left, class Right>
  __device__ __forceinline__ void go(
      const Left& left, const Right& right, const int top, const int first, const int from, const int to,
      float* const room) {
    through_panels<Stages>(static_cast<Core&>(*this), left, right, top, first, from, to, room);
  }
};
"""

COPY_PIECE = """\
// Copies a piece to shared memory without passing through registers where it is large enough, or puts zeros there.
template <int Width, class Element>
__device__ inline void copy_piece(Element* to, const Element* from, const bool inside) {
  constexpr int Bytes = Width * sizeof(Element);
  const auto place = __cvta_generic_to_shared(to);
  const unsigned given = inside ? Bytes : 0;
  if constexpr (Bytes == 16)
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"l"(place), "l"(from), "r"(given) : "memory");
  else if constexpr (Bytes == 8)
    asm volatile("cp.async.ca.shared.global [%0], [%1], 8, %2;" ::"l"(place), "l"(from), "r"(given) : "memory");
  else if constexpr (Bytes == 4)
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"l"(place), "l"(from), "r"(given) : "memory");
  else
    *to = inside ? *from : Element(0.0f);
}
"""

WIDENED_PIECE = """\
// What is stored in fewer bits is widened on the way.
template <int Width, class Element, class Stored>
__device__ inline void copy_piece(Element* to, const Stored* from, const bool inside) {
  struct __align__(sizeof(Stored) * Width) { Stored all[Width]; } raw;
  struct __align__(sizeof(Element) * Width) { Element all[Width]; } made;
  if (inside) raw = *reinterpret_cast<const decltype(raw)*>(from);
#pragma unroll
  for (int j = 0; j < Width; ++j) made.all[j] = Element(inside ? static_cast<float>(raw.all[j]) : 0.0f);
  *reinterpret_cast<decltype(made)*>(to) = made;
}
"""

CONTRACTED = """\
// Blocks go over all steps of all tiles of all batches in equal shares. A tile that several of them have a part in is
// put together, in order, by the one that is done last.
template <class Shape, class Core, bool Shared, class Left, class Right, class Last>
__device__ __forceinline__ void contracted(
    const int block, const int blocks, const Left& left, const Right& right, float* const sums, unsigned* const came,
    const Last& last) {
  extern __shared__ __align__(16) float room[];
  constexpr int ELEMENTS = Core::ROWS * Core::COLS, COUNT = ELEMENTS / Core::THREADS;
  constexpr int STEPS = (Shape::DEPTH + Core::DEEP - 1) / Core::DEEP, GROUP = 8;
  constexpr int DOWN = (Shape::ROWS + Core::ROWS - 1) / Core::ROWS;
  constexpr int ACROSS = (Shape::COLS + Core::COLS - 1) / Core::COLS;
  constexpr long long ALL = static_cast<long long>(Shape::BATCHES) * DOWN * ACROSS * STEPS;
  const long long end = Shared ? ALL * (block + 1) / blocks : (block + 1ll) * STEPS;
  for (long long at = Shared ? ALL * block / blocks : static_cast<long long>(block) * STEPS; at < end;) {
    const int piece = static_cast<int>(at / STEPS), from = static_cast<int>(at % STEPS);
    const int to = from + static_cast<int>(min(static_cast<long long>(STEPS - from), end - at));
    at += to - from;
    // Tiles that run at the same time share panels: eight rows of tiles at a time, column by column.
    const int batch = piece / (DOWN * ACROSS), tile = piece % (DOWN * ACROSS);
    const int high = min(GROUP, DOWN - tile / (GROUP * ACROSS) * GROUP), within = tile % (GROUP * ACROSS);
    const int top = (tile / (GROUP * ACROSS) * GROUP + within % high) * Core::ROWS, first = within / high * Core::COLS;
    Left lefts = left;
    Right rights = right;
    lefts.move(batch), rights.move(batch);
    Core core;
    core.go(lefts, rights, top, first, from, to, room);
    __syncthreads();
    if (Shared && to - from < STEPS) {
      const long long begin = static_cast<long long>(piece) * STEPS;
      const auto owner = [&](const long long step) { return static_cast<int>(((step + 1) * blocks - 1) / ALL); };
      const int one = owner(begin), other = owner(begin + STEPS - 1);
      const auto part = [&](const int of) {  // a block leaves at most two tiles unfinished: its first and its last
        return sums + (2ll * of + (ALL * of / blocks > begin ? 0 : 1)) * ELEMENTS + 4 * threadIdx.x;
      };
      float* const mine = part(block);
#pragma unroll
      for (int i = 0; i < COUNT; i += 4)
        *reinterpret_cast<float4*>(mine + i * Core::THREADS) = *reinterpret_cast<const float4*>(core.sum + i);
      if (!last_to_come(came + piece, other - one + 1)) continue;
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
    if constexpr (Last::RUN == 1) {
      // Two by two would be one by one with gaps: by way of shared memory neighbours go to neighbours.
      constexpr int STRIDE = Core::COLS + 4;
#pragma unroll
      for (int i = 0; i < COUNT; ++i) room[Core::row(i) * STRIDE + Core::col(i)] = core.sum[i];
      __syncthreads();
#pragma unroll 4
      for (int t = threadIdx.x; t < ELEMENTS; t += Core::THREADS) {
        const int down = t / Core::COLS, across = t % Core::COLS, m = top + down, n = first + across;
        long long row, c;
        if (m < Shape::ROWS && n < Shape::COLS && last.place(batch, m, n, row, c)) {
          const float one[1] = {room[down * STRIDE + across]};
          const decltype(last.extra(0, 0)) extras[1] = {last.extra(row, c)};
          last.finish(one, row, c, extras);
        }
      }
      __syncthreads();
    } else {
#pragma unroll
      for (int i = 0; i < COUNT; i += 2) {
        const int m = top + Core::row(i), n = first + Core::col(i);
        long long row, c;
        if (m < Shape::ROWS && n < Shape::COLS && last.place(batch, m, n, row, c)) {
          const float run[2] = {core.sum[i], core.sum[i + 1]};
          const decltype(last.extra(0, 0)) extras[2] = {last.extra(row, c), last.extra(row, c + 1)};
          last.finish(run, row, c, extras);
        }
      }
    }
  }
}
"""

# Three TF32 products by a warpgroup, for operands that are gathered: products/cores.py has the same for matrices.
GATHERED_GROUPS = """\
template <bool Whole, int Width, class Operand>
__device__ __forceinline__ void gather(float (&to)[Width], const Operand& operand, const int row, const int k) {
  const float* const from = operand.template at<Whole>(row, k);
  alignas(16) float v[Width] = {};
  if (from) load(v, from);
  copy(to, v);
}

// A tile whose warpgroups have 64 rows each. What a lane has of the left operand goes from memory to its registers: of
// two rows, eight neighbours. The right operand is parted into shared memory one step ahead, while the tensor cores are
// at the step before. They round sums towards zero, so each step starts from nothing, and float units add the steps up.
template <class LeftOperand, class RightOperand, int Tall, int Wide, int All, int Across, int Depth>
struct GatheredGroupCore {
  static constexpr int ROWS = Tall, COLS = Wide, DEEP = 32, THREADS = 2 * Tall, PART = Wide * DEEP;
  static constexpr bool LEFT_WHOLE = All % Tall == 0 && Depth % DEEP == 0;
  static constexpr bool RIGHT_WHOLE = Across % Wide == 0 && Depth % DEEP == 0;
  static constexpr int LEFT_WIDTH = LeftOperand::ALONG_DEPTH ? LeftOperand::WIDTH : 1;
  static constexpr int WIDTH = RightOperand::ALONG_DEPTH ? RightOperand::WIDTH : 1;
  static constexpr int EACH = DEEP / WIDTH, COUNT = Wide * EACH / THREADS;
  alignas(16) float sum[Wide / 2] = {};

  static __device__ __forceinline__ int top() { return threadIdx.x / 32 * 16; }
  static __device__ __forceinline__ int row(const int i) { return top() + i % 4 / 2 * 8 + threadIdx.x % 32 / 4; }
  static __device__ __forceinline__ int col(const int i) { return i / 4 * 8 + threadIdx.x % 4 * 2 + i % 2; }
  // What a thread brings to shared memory, so that lanes use all banks.
  static __device__ __forceinline__ int line(const int i) {
    if (RightOperand::ALONG_DEPTH) return (i * THREADS + threadIdx.x) / EACH;
    return (i * (THREADS / 32) + threadIdx.x / 32) % (Wide / 8) * 8 + threadIdx.x % 8;
  }
  static __device__ __forceinline__ int deep(const int i) {
    if (RightOperand::ALONG_DEPTH) return (i * THREADS + threadIdx.x) % EACH * WIDTH;
    return threadIdx.x % 32 / 8 * 8 + (i * (THREADS / 32) + threadIdx.x / 32) / (Wide / 8);
  }
  static __device__ __forceinline__ void read_left(
      float (&to)[2][8], const LeftOperand& left, const int above, const int start) {
#pragma unroll
    for (int i = 0; i < 2; ++i)
#pragma unroll
      for (int j = 0; j < 8; j += LEFT_WIDTH)
        gather<LEFT_WHOLE>(reinterpret_cast<float (&)[LEFT_WIDTH]>(to[i][j]), left,
                           above + top() + 8 * i + static_cast<int>(threadIdx.x) % 32 / 4,
                           start + static_cast<int>(threadIdx.x) % 4 * 8 + j);
  }
  static __device__ __forceinline__ void read_right(
      float (&to)[COUNT][WIDTH], const RightOperand& right, const int first, const int start) {
#pragma unroll
    for (int i = 0; i < COUNT; ++i) gather<RIGHT_WHOLE>(to[i], right, first + line(i), start + deep(i));
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

  __device__ __forceinline__ void go(
      const LeftOperand& left, const RightOperand& right, const int above, const int first, const int from,
      const int to, float* const room) {
    const auto place = [&](const int step) { return for_tensors(room) + step % 2 * 2 * PART; };
    alignas(16) float l[2][8], r[COUNT][WIDTH];
    read_right(r, right, first, from * DEEP);
    read_left(l, left, above, from * DEEP);
    write(place(from), place(from) + PART, r);
    if (from + 1 < to) read_right(r, right, first, (from + 1) * DEEP);
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
        read_left(l, left, above, (step + 1) * DEEP);
        write(place(step + 1), place(step + 1) + PART, r);
      }
      if (step + 2 < to) read_right(r, right, first, (step + 2) * DEEP);
      wait_for_products(fresh);
#pragma unroll
      for (int i = 0; i < Wide / 2; ++i) sum[i] += fresh[i];
    }
  }
};
"""
