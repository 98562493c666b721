// linear:backward@rows=64,features=128,units=10: tiles chosen by size on the float units, 3 stages of 32 in shared memory, blocks in equal shares of the depths of all tiles; then tiles chosen by size on the float units, 3 stages of 32 in shared memory, blocks in equal shares of the depths of all tiles; then about 16 elements a thread and at most 256 threads a row, vectors of 4, 2 persistent blocks on each multiprocessor.
#define INF __int_as_float(0x7f800000)

// NaN wins, as in torch.
__device__ inline float most(float a, float b) { return a > b || a != a ? a : b; }
__device__ inline float least(float a, float b) { return a < b || a != a ? a : b; }
__device__ inline float plus(float a, float b) { return a + b; }
__device__ inline float sign(float x) { return x > 0.0f ? 1.0f : x < 0.0f ? -1.0f : x; }

template <int Width>
struct Vector;
template <>
struct Vector<1> { using type = float; };
template <>
struct Vector<2> { using type = float2; };
template <>
struct Vector<4> { using type = float4; };

template <int Width>
__device__ inline void load(float (&to)[Width], const float* from) {
  using Whole = typename Vector<Width>::type;
  *reinterpret_cast<Whole*>(to) = *reinterpret_cast<const Whole*>(from);
}
template <int Width>
__device__ inline void store(float* to, const float (&from)[Width]) {
  using Whole = typename Vector<Width>::type;
  *reinterpret_cast<Whole*>(to) = *reinterpret_cast<const Whole*>(from);
}
template <int Width>
__device__ inline void copy(float (&to)[Width], const float (&from)[Width]) {
#pragma unroll
  for (int j = 0; j < Width; ++j) to[j] = from[j];
}
template <int Width>
__device__ inline void stream(float* to, const float (&from)[Width]) {
  using Whole = typename Vector<Width>::type;
  __stcs(reinterpret_cast<Whole*>(to), *reinterpret_cast<const Whole*>(from));
}

// What a thread keeps in shared memory, vector by vector, beside what `Threads` threads keep.
template <int Width, int Threads>
struct Shelf {
  float* first;
  __device__ float (&operator[](int k) const)[Width] {
    return *reinterpret_cast<float (*)[Width]>(first + k * Threads * Width);
  }
};

struct Sum {
  static __device__ float nothing() { return 0.0f; }
  static __device__ float join(float a, float b) { return a + b; }
};
struct Most {
  static __device__ float nothing() { return -INF; }
  static __device__ float join(float a, float b) { return most(a, b); }
};
struct Least {
  static __device__ float nothing() { return INF; }
  static __device__ float join(float a, float b) { return least(a, b); }
};
// The largest value and where it stands; the first of equals, and a NaN before all.
struct __align__(8) Found {
  float value;
  int at;
};
struct First {
  static __device__ Found nothing() { return {-INF, -1}; }
  static __device__ Found join(Found a, Found b) {
    if (b.at < 0) return a;
    if (a.at < 0) return b;
    const bool lost_a = a.value != a.value, lost_b = b.value != b.value;
    if (lost_a != lost_b) return lost_a ? a : b;
    if (lost_a || a.value == b.value) return a.at < b.at ? a : b;
    return a.value > b.value ? a : b;
  }
};
__device__ inline float shuffled(unsigned mask, float v, int with) { return __shfl_xor_sync(mask, v, with); }
__device__ inline Found shuffled(unsigned mask, Found v, int with) {
  return {__shfl_xor_sync(mask, v.value, with), __shfl_xor_sync(mask, v.at, with)};
}

// Over `Lanes` neighbouring lanes of a warp; all of them get the result. `Whole`: all lanes of the warp come here.
template <class Join, int Lanes, bool Whole, class T>
__device__ inline T over_lanes(T v, int lane) {
  const unsigned few = ((1u << Lanes % 32) - 1) << (lane & ~(Lanes - 1));
#pragma unroll
  for (int d = Lanes / 2; d; d /= 2) v = Join::join(v, shuffled(Whole || Lanes == 32 ? 0xffffffffu : few, v, d));
  return v;
}

// Over `Threads` threads of a block, which all come here; `slots` must not be read any more by others.
template <class Join, int Threads, bool Whole = (Threads >= 32), class T>
__device__ inline T over_team(T v, T* slots) {
  constexpr int Lanes = Threads < 32 ? Threads : 32, Warps = Threads < 32 ? 1 : Threads / 32;
  const int lane = threadIdx.x % 32;
  v = over_lanes<Join, Lanes, Whole>(v, lane);
  if (Warps > 1) {
    if (lane == 0) slots[threadIdx.x / 32] = v;
    __syncthreads();
    v = over_lanes<Join, Warps, true>(slots[lane % Warps], lane);
  }
  return v;
}

// Written by another block of this launch, so not from a cache that may be old.
__device__ inline float fetched(const float* from) { return __ldcg(from); }
__device__ inline Found fetched(const Found* from) {
  const int2 raw = __ldcg(reinterpret_cast<const int2*>(from));
  return {__int_as_float(raw.x), raw.y};
}

// A number for blocks of this launch that wait for it: one word, zero before, tells that it is there and what it is.
__device__ inline unsigned long long told(float v) { return 1ull << 32 | __float_as_uint(v); }
__device__ inline unsigned long long told(Found v) {
  return static_cast<unsigned long long>(v.at + 2) << 32 | __float_as_uint(v.value);
}
__device__ inline unsigned long long awaited(const unsigned long long* from) {
  unsigned long long word;
  do {
    word = *reinterpret_cast<const volatile unsigned long long*>(from);
  } while (!(word >> 32));
  return word;
}
template <class T>
__device__ inline T heard(const unsigned long long* from);
template <>
__device__ inline float heard<float>(const unsigned long long* from) {
  return __uint_as_float(static_cast<unsigned>(awaited(from)));
}
template <>
__device__ inline Found heard<Found>(const unsigned long long* from) {
  const unsigned long long word = awaited(from);
  return {__uint_as_float(static_cast<unsigned>(word)), static_cast<int>(word >> 32) - 2};
}
template <class T>
__device__ inline void tell(unsigned long long* to, T v) {
  *reinterpret_cast<volatile unsigned long long*>(to) = told(v);
}

// Whether this block is the last of `count` to come here; it sees what the others wrote, and leaves the count zero.
__device__ inline bool last_to_come(unsigned* arrived, unsigned count) {
  __shared__ bool last;
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) last = atomicAdd(arrived, 1u) == count - 1;
  __syncthreads();
  if (last && threadIdx.x == 0) *arrived = 0;
  __threadfence();
  return last;
}

__device__ inline void wait_for_launch_before() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
__device__ inline void let_next_launch_start() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;");
#endif
}

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

// Blocks go over all steps of all tiles in equal shares. A tile that several of them have a part in is put together, in
// order, by the one that is done last.
template <class Shape, class Core, int Stages, bool Shared, class Last>
__device__ __forceinline__ void blocked(
    const int block, const int blocks, const float* const left, const float* const right, float* const sums,
    unsigned* const came, const Last& last) {
  extern __shared__ __align__(16) float room[];
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
    const auto fetch = [&](const int step) {
      if (step < to) {
        float* const stage = room + step % Stages * STAGE;
        Left::template fetch<Shape::ROWS, Shape::DEPTH>(stage, left, top, step * Core::DEEP);
        Right::template fetch<Shape::COLS, Shape::DEPTH>(stage + Left::FLOATS, right, first, step * Core::DEEP);
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


struct Shape_0 {
  static constexpr int ROWS = M_0, COLS = N_0, DEPTH = K_0;
};
struct Extra_0 {
};
struct Last_0 {
  static constexpr long long COLS = N_0;
  float* p_grad_x;
  __device__ __forceinline__ Extra_0 extra(const long long row, const long long c) const {
    return {};
  }
  template <int Run>
  __device__ __forceinline__ void finish(
      const float (&products)[Run], const long long row, const long long first,
      const Extra_0 (&extras)[Run]) const {
    alignas(16) float s_grad_x[Run];
#pragma unroll
    for (int j = 0; j < Run; ++j) {
      const long long c = first + j;
      const float product = products[j];
      s_grad_x[j] = product;
    }
    store(p_grad_x + row * COLS + first, s_grad_x);
  }
};
__device__ __forceinline__ void product_0(const int block, const int blocks, float* __restrict__ p_grad_x, float* __restrict__ p_parts_0, unsigned* __restrict__ p_arrived_0, const float* __restrict__ p_grad_out, const float* __restrict__ p_weight) {
  const Last_0 last{p_grad_x};
  constexpr int THREADS = THREADS_product_0;
  using Left = Panel<HIGH_0, 32, true, LEFT_WIDTH_0, THREADS>;
  using Right = Panel<WIDE_0, 32, false, RIGHT_WIDTH_0, THREADS>;
  using Core = FloatCore<Left, Right, HIGH_0, WIDE_0, 32, OWN_HIGH_0, OWN_WIDE_0>;
  blocked<Shape_0, Core, 3, (STREAMS_0 > 0)>(
      block, blocks, p_grad_out, p_weight, p_parts_0, p_arrived_0, last);
}

struct Shape_1 {
  static constexpr int ROWS = M_1, COLS = N_1, DEPTH = K_1;
};
struct Extra_1 {
};
struct Last_1 {
  static constexpr long long COLS = N_1;
  float* p_grad_weight;
  __device__ __forceinline__ Extra_1 extra(const long long row, const long long c) const {
    return {};
  }
  template <int Run>
  __device__ __forceinline__ void finish(
      const float (&products)[Run], const long long row, const long long first,
      const Extra_1 (&extras)[Run]) const {
    alignas(16) float s_grad_weight[Run];
#pragma unroll
    for (int j = 0; j < Run; ++j) {
      const long long c = first + j;
      const float product = products[j];
      s_grad_weight[j] = product;
    }
    store(p_grad_weight + row * COLS + first, s_grad_weight);
  }
};
__device__ __forceinline__ void product_1(const int block, const int blocks, float* __restrict__ p_grad_weight, float* __restrict__ p_parts_1, unsigned* __restrict__ p_arrived_1, const float* __restrict__ p_grad_out, const float* __restrict__ p_x) {
  const Last_1 last{p_grad_weight};
  constexpr int THREADS = THREADS_product_1;
  using Left = Panel<HIGH_1, 32, false, LEFT_WIDTH_1, THREADS>;
  using Right = Panel<WIDE_1, 32, false, RIGHT_WIDTH_1, THREADS>;
  using Core = FloatCore<Left, Right, HIGH_1, WIDE_1, 32, OWN_HIGH_1, OWN_WIDE_1>;
  blocked<Shape_1, Core, 3, (STREAMS_1 > 0)>(
      block, blocks, p_grad_out, p_x, p_parts_1, p_arrived_1, last);
}

__device__ __forceinline__ void rows_2_0(const int block, const int blocks, float* __restrict__ p_partial_2_1, const float* __restrict__ p_grad_out, float* __restrict__ p_grad_bias) {
  constexpr int COLS = COLS_2_0, WIDTH = WIDTH_2_0, TEAM = TEAM_2_0, TEAMS = TEAMS_2_0;
  constexpr int CHUNKS = CHUNKS_2_0, PARTS = PARTS_2_0;
  using Index = INDEX_2_0;
  constexpr Index ROWS = ROWS_2_0;
  constexpr bool WHOLE = TEAM >= 32 || ROWS % (32 / TEAM) == 0;
  __shared__ float slots[2][1][32];
  int turn = 0;
  (void)slots, (void)turn;
  const int team = threadIdx.x / TEAM, lane = threadIdx.x % TEAM, part = block % PARTS;
  const int me = block / PARTS * TEAMS + team, all = blocks / PARTS * TEAMS;
  (void)WHOLE, (void)lane, (void)part;
  float* const partial1 = p_partial_2_1 + static_cast<long long>(me) * COLS;
  alignas(16) float c1[COLUMNS_2_0 ? CHUNKS : 1][WIDTH];
  for (int k = 0; k < (COLUMNS_2_0 ? CHUNKS : 1); ++k)
    for (int j = 0; j < WIDTH; ++j) c1[k][j] = Sum::nothing();
  if (!COLUMNS_2_0 && !ONLY_2_0)
  #pragma unroll (COLUMNS_2_0 ? CHUNKS : 4)
    for (int k = 0; k < CHUNKS; ++k) {
      const int c = ((k * PARTS + part) * TEAM + lane) * WIDTH;
      if (c < COLS) store(partial1 + c, c1[0]);
    }
  for (Index row = me; row < ROWS; row += all) {
    #pragma unroll (COLUMNS_2_0 ? CHUNKS : 4)
    for (int k = 0; k < CHUNKS; ++k) {
      const int c = ((k * PARTS + part) * TEAM + lane) * WIDTH;
      if (c < COLS) {
        alignas(16) float l0[WIDTH];
        load(l0, p_grad_out + row * COLS + c);
        if (!COLUMNS_2_0 && !ONLY_2_0) load(c1[0], partial1 + c);
        #pragma unroll
        for (int j = 0; j < WIDTH; ++j) {
          c1[COLUMNS_2_0 ? k : 0][j] = Sum::join(
              !ONLY_2_0 ? c1[COLUMNS_2_0 ? k : 0][j] : Sum::nothing(), static_cast<float>(l0[j]));
        }
        if (!COLUMNS_2_0 && !ONLY_2_0) store(partial1 + c, c1[0]);
        if (ONLY_2_0) {
          alignas(16) float r_grad_bias[WIDTH];
          #pragma unroll
          for (int j = 0; j < WIDTH; ++j) {
            const float a1 = c1[0][j];
            const float v1 = a1;
            r_grad_bias[j] = v1;
          }
          store(p_grad_bias + c, r_grad_bias);
        }
      }
    }
  }
  if (COLUMNS_2_0)
  #pragma unroll (COLUMNS_2_0 ? CHUNKS : 4)
    for (int k = 0; k < CHUNKS; ++k) {
      const int c = ((k * PARTS + part) * TEAM + lane) * WIDTH;
      if (c < COLS) store(partial1 + c, c1[COLUMNS_2_0 ? k : 0]);
    }
}

__device__ __forceinline__ void columns_2_0(const int block, const int blocks, const float* __restrict__ p_partial_2_1, float* __restrict__ p_grad_bias) {
  constexpr int COLS = JOINED_2_0, PARTIALS = PARTIALS_2_0, GROUPS = SHARING_2_0;
  constexpr int LANES = 256 / GROUPS;
  __shared__ float found[1][GROUPS][LANES];
  const int lane = threadIdx.x % LANES, group = threadIdx.x / LANES;
  const int c = block * LANES + lane;
  float a1 = Sum::nothing();
  if (c < COLS)
  #pragma unroll 4
    for (int i = group; i < PARTIALS; i += GROUPS)
      a1 = Sum::join(a1, p_partial_2_1[static_cast<long long>(i) * COLS + c]);
  found[0][group][lane] = a1;
  __syncthreads();
  if (group == 0 && c < COLS) {
    for (int i = 1; i < GROUPS; ++i) a1 = Sum::join(a1, found[0][i][lane]);
    const float v1 = a1;
    p_grad_bias[c] = v1;
  }
}

extern "C" __global__ void __launch_bounds__(THREADS_0, LEAST_0) launch0(
    float* __restrict__ p_grad_x,
    float* __restrict__ p_parts_0,
    unsigned* __restrict__ p_arrived_0,
    const float* __restrict__ p_grad_out,
    const float* __restrict__ p_weight) {
  let_next_launch_start();
  if (blockIdx.x < 0 + BLOCKS_product_0) {
    if (threadIdx.x < THREADS_product_0)
      product_0(blockIdx.x - (0), BLOCKS_product_0, p_grad_x, p_parts_0, p_arrived_0, p_grad_out, p_weight);
  }
}

extern "C" __global__ void __launch_bounds__(THREADS_1, LEAST_1) launch1(
    float* __restrict__ p_grad_weight,
    float* __restrict__ p_parts_1,
    unsigned* __restrict__ p_arrived_1,
    const float* __restrict__ p_grad_out,
    const float* __restrict__ p_x) {
  let_next_launch_start();
  wait_for_launch_before();
  if (blockIdx.x < 0 + BLOCKS_product_1) {
    if (threadIdx.x < THREADS_product_1)
      product_1(blockIdx.x - (0), BLOCKS_product_1, p_grad_weight, p_parts_1, p_arrived_1, p_grad_out, p_x);
  }
}

extern "C" __global__ void __launch_bounds__(THREADS_2, LEAST_2) launch2(
    float* __restrict__ p_partial_2_1,
    const float* __restrict__ p_grad_out,
    float* __restrict__ p_grad_bias) {
  let_next_launch_start();
  wait_for_launch_before();
  if (blockIdx.x < 0 + BLOCKS_rows_2_0) {
    if (threadIdx.x < THREADS_rows_2_0)
      rows_2_0(blockIdx.x - (0), BLOCKS_rows_2_0, p_partial_2_1, p_grad_out, p_grad_bias);
  }
}

extern "C" __global__ void __launch_bounds__(THREADS_3, LEAST_3) launch3(
    const float* __restrict__ p_partial_2_1,
    float* __restrict__ p_grad_bias) {
  wait_for_launch_before();
  if (blockIdx.x < 0 + BLOCKS_columns_2_0) {
    if (threadIdx.x < THREADS_columns_2_0)
      columns_2_0(blockIdx.x - (0), BLOCKS_columns_2_0, p_partial_2_1, p_grad_bias);
  }
}


































































































































































