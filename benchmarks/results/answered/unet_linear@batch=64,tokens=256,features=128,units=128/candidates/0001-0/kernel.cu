// unet_linear@batch=64,tokens=256,features=128,units=128: lanes along the depth, as many as fit elements a warp, up to 8 warps for the depth below 2^26 multiplications, or for 8 rows or columns at most, else tiles chosen by size on tensor cores, as three TF32 products, 3 stages of 32 in shared memory, blocks in equal shares of the depths of all tiles, the steps after it on each element.
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

  // 16 rows and 8 columns of the depth in four quarters: those of the same columns come first if `by_rows`.
  template <class P>
  static __device__ __forceinline__ void read(
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


struct Shape_0 {
  static constexpr int ROWS = M_0, COLS = N_0, DEPTH = K_0;
};
struct Extra_0 {
  float v0;
};
struct Last_0 {
  static constexpr long long COLS = N_0;
  const float* p_bias;
  float* p_out;
  __device__ __forceinline__ Extra_0 extra(const long long row, const long long c) const {
    return {p_bias[c]};
  }
  template <int Run>
  __device__ __forceinline__ void finish(
      const float (&products)[Run], const long long row, const long long first,
      const Extra_0 (&extras)[Run]) const {
    const float v2 = NUMBER_0_2;
    alignas(16) float s_out[Run];
#pragma unroll
    for (int j = 0; j < Run; ++j) {
      const long long c = first + j;
      const float product = products[j];
      const float v0 = extras[j].v0;
      const float v3 = product * v2;
      const float v4 = v0 * v2;
      const float v5 = v3 + v4;
      s_out[j] = v5;
    }
    store(p_out + row * COLS + first, s_out);
  }
};
__device__ __forceinline__ void product_0(const int block, const int blocks, const float* __restrict__ p_bias, float* __restrict__ p_out, const float* __restrict__ p_x, const float* __restrict__ p_weight, float* __restrict__ p_parts_0, unsigned* __restrict__ p_arrived_0) {
  const Last_0 last{p_bias, p_out};
#if SMALL_0
  dots<Shape_0, BROAD_0, TALL_0, TEAM_0, WARPS_0, VECTOR_0, AHEAD_0>(block, Plain{p_x}, Plain{p_weight}, last);
#else
  constexpr int THREADS = THREADS_product_0;
  using Left = Panel<HIGH_0, 32, true, LEFT_WIDTH_0, THREADS>;
  using Right = Panel<WIDE_0, 32, true, RIGHT_WIDTH_0, THREADS>;
  using Core = TensorCore<Left, Right, HIGH_0, WIDE_0, 32, OWN_HIGH_0, OWN_WIDE_0>;
  blocked<Shape_0, Core, 3, (STREAMS_0 > 0)>(
      block, blocks, p_x, p_weight, p_parts_0, p_arrived_0, last);
#endif
}

extern "C" __global__ void __launch_bounds__(THREADS_0, LEAST_0) launch0(
    const float* __restrict__ p_bias,
    float* __restrict__ p_out,
    const float* __restrict__ p_x,
    const float* __restrict__ p_weight,
    float* __restrict__ p_parts_0,
    unsigned* __restrict__ p_arrived_0) {
  if (blockIdx.x < 0 + BLOCKS_product_0) {
    if (threadIdx.x < THREADS_product_0)
      product_0(blockIdx.x - (0), BLOCKS_product_0, p_bias, p_out, p_x, p_weight, p_parts_0, p_arrived_0);
  }
}















































































































