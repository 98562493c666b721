// unet_linear:backward@batch=64,tokens=256,features=128,units=128: lanes along the columns, as many as fit rows a warp, up to 8 warps for the depth below 2^24 multiplications, or for 8 rows or columns at most, else tiles chosen by size on tensor cores, as three TF32 products, by warpgroups on Hopper, else 3 stages of 32 in shared memory, blocks in equal shares of the depths of all tiles; then lanes along the columns, as many as fit rows a warp, up to 8 warps for the depth below 2^24 multiplications, or for 8 rows or columns at most, else tiles chosen by size on tensor cores, as three TF32 products, by warpgroups on Hopper, else 3 stages of 32 in shared memory, blocks in equal shares of the depths of all tiles; then about 8 elements a thread and at most 256 threads a row, vectors of 4, 2 persistent blocks on each multiprocessor.
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

// The element of a row at a place that all lanes know, from the lane that keeps it: a load would be waited for again.
template <int Width, int Chunks, int Lanes, bool Whole, class Kept>
__device__ inline float picked(const Kept& kept, unsigned at) {
  const int lane = threadIdx.x % 32;
  const unsigned few = ((1u << Lanes % 32) - 1) << (lane & ~(Lanes - 1));
  float found = 0.0f;
#pragma unroll
  for (int k = 0; k < Chunks; ++k) {
#pragma unroll
    for (int j = 0; j < Width; ++j)
      if (at == (k * Lanes + lane % Lanes) * Width + j) found = kept[k][j];
  }
  return __shfl_sync(Whole || Lanes == 32 ? 0xffffffffu : few, found, at / Width % Lanes, Lanes);
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


// The right operand lies along the columns. A warp has Tall rows of a strip of 32 vectors of columns; `Team` warps
// share the depth. The left operand's elements are the same for all lanes.
template <
    class Shape, bool Turned, int Tall, int Team, int Warps, int Width, int Ahead, class Left, class Right, class Last>
__device__ __forceinline__ void strips(const int block, const Left& left, const Right& right, const Last& last) {
  extern __shared__ __align__(16) float room[];
  constexpr int STRIP = 32 * Width, ACROSS = (Shape::COLS + STRIP - 1) / STRIP, DOWN = (Shape::ROWS + Tall - 1) / Tall;
  constexpr int SHARE = (Shape::DEPTH + Team - 1) / Team, COUNT = Tall * Width;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, part = warp % Team;
  const int group = block * (Warps / Team) + warp / Team;
  const int top = group / ACROSS * Tall, first = group % ACROSS * STRIP, end = min((part + 1) * SHARE, Shape::DEPTH);
  const bool there = group < ACROSS * DOWN, covered = there && first + lane * Width < Shape::COLS;
  // Where this thread has results in the end: its own vectors, or single elements of the team's.
  constexpr int VECTOR = Team > 1 ? 1 : Width, RESULTS = Team > 1 ? (COUNT + Team - 1) / Team : Tall;
  decltype(last.extra(0, 0)) extras[RESULTS][VECTOR];
  const auto place = [&](const int j, long long& row, long long& c) {
    const int at = Team > 1 ? (j * Team + part) * 32 + lane : j * STRIP + lane * Width;
    row = top + at / STRIP, c = first + at % STRIP;
    return there && at < Tall * STRIP && row < Shape::ROWS && c < Shape::COLS;
  };
#pragma unroll
  for (int j = 0; j < RESULTS; ++j) {
    long long row, c;
    if (place(j, row, c))
#pragma unroll
      for (int w = 0; w < VECTOR; ++w) extras[j][w] = last.extra(row, c + w);
  }
  alignas(16) float sum[Tall][Width] = {};
  if (there)
    for (int start = part * SHARE; start < end; start += Ahead) {
      alignas(16) float l[Ahead][Tall][1] = {}, r[Ahead][Width] = {};
#pragma unroll
      for (int s = 0; s < Ahead; ++s) {
        const int k = start + s;
        if (covered && k < end) right.read(r[s], 1ll * k * Shape::COLS + first + lane * Width);
#pragma unroll
        for (int a = 0; a < Tall; ++a) {
          const long long row = min(top + a, Shape::ROWS - 1), high = Shape::ROWS;
          if (k < end) left.read(l[s][a], Turned ? k * high + row : row * Shape::DEPTH + k);
        }
      }
#pragma unroll
      for (int s = 0; s < Ahead; ++s)
#pragma unroll
        for (int a = 0; a < Tall; ++a)
#pragma unroll
          for (int w = 0; w < Width; ++w) sum[a][w] += l[s][a][0] * r[s][w];
    }
  if constexpr (Team > 1) {
    float* const parts = room + warp / Team * Team * Tall * STRIP;
#pragma unroll
    for (int a = 0; a < Tall; ++a) store(parts + (part * Tall + a) * STRIP + lane * Width, sum[a]);
    __syncthreads();
#pragma unroll
    for (int j = 0; j < RESULTS; ++j) {
      long long row, c;
      if (place(j, row, c)) {
        float one[1] = {};
#pragma unroll
        for (int p = 0; p < Team; ++p) one[0] += parts[p * Tall * STRIP + (j * Team + part) * 32 + lane];
        last.finish(one, row, c, extras[j]);
      }
    }
  } else {
#pragma unroll
    for (int j = 0; j < RESULTS; ++j) {
      long long row, c;
      if (place(j, row, c)) last.finish(sum[j], row, c, extras[j]);
    }
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
      // Several are asked for at once, as far as there are registers.
#pragma unroll (COUNT < 64 ? 64 / COUNT : 1)
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


// 64 x Wide products of depth 8 by a warpgroup: the left operand in registers, the right one in shared memory. Unless
// `more`, what was in the sums is dropped.
template <int Wide>
struct Products;
template <>
struct Products<128> {
  static __device__ __forceinline__ void add(
      float (&sum)[64], const unsigned (&left)[4], const unsigned long long right, const int more) {
    asm volatile(
        "{ .reg .pred p; setp.ne.b32 p, %69, 0; "
        "wgmma.mma_async.sync.aligned.m64n128k8.f32.tf32.tf32 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
        "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
        "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
        "}, {%64, %65, %66, %67}, %68, p, 1, 1; }"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3]), "+f"(sum[4]), "+f"(sum[5]), "+f"(sum[6]), "+f"(sum[7]),
          "+f"(sum[8]), "+f"(sum[9]), "+f"(sum[10]), "+f"(sum[11]), "+f"(sum[12]), "+f"(sum[13]), "+f"(sum[14]), "+f"(sum[15]),
          "+f"(sum[16]), "+f"(sum[17]), "+f"(sum[18]), "+f"(sum[19]), "+f"(sum[20]), "+f"(sum[21]), "+f"(sum[22]), "+f"(sum[23]),
          "+f"(sum[24]), "+f"(sum[25]), "+f"(sum[26]), "+f"(sum[27]), "+f"(sum[28]), "+f"(sum[29]), "+f"(sum[30]), "+f"(sum[31]),
          "+f"(sum[32]), "+f"(sum[33]), "+f"(sum[34]), "+f"(sum[35]), "+f"(sum[36]), "+f"(sum[37]), "+f"(sum[38]), "+f"(sum[39]),
          "+f"(sum[40]), "+f"(sum[41]), "+f"(sum[42]), "+f"(sum[43]), "+f"(sum[44]), "+f"(sum[45]), "+f"(sum[46]), "+f"(sum[47]),
          "+f"(sum[48]), "+f"(sum[49]), "+f"(sum[50]), "+f"(sum[51]), "+f"(sum[52]), "+f"(sum[53]), "+f"(sum[54]), "+f"(sum[55]),
          "+f"(sum[56]), "+f"(sum[57]), "+f"(sum[58]), "+f"(sum[59]), "+f"(sum[60]), "+f"(sum[61]), "+f"(sum[62]), "+f"(sum[63])
        : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "l"(right), "r"(more));
  }
};
template <>
struct Products<96> {
  static __device__ __forceinline__ void add(
      float (&sum)[48], const unsigned (&left)[4], const unsigned long long right, const int more) {
    asm volatile(
        "{ .reg .pred p; setp.ne.b32 p, %53, 0; "
        "wgmma.mma_async.sync.aligned.m64n96k8.f32.tf32.tf32 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
        "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47"
        "}, {%48, %49, %50, %51}, %52, p, 1, 1; }"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3]), "+f"(sum[4]), "+f"(sum[5]), "+f"(sum[6]), "+f"(sum[7]),
          "+f"(sum[8]), "+f"(sum[9]), "+f"(sum[10]), "+f"(sum[11]), "+f"(sum[12]), "+f"(sum[13]), "+f"(sum[14]), "+f"(sum[15]),
          "+f"(sum[16]), "+f"(sum[17]), "+f"(sum[18]), "+f"(sum[19]), "+f"(sum[20]), "+f"(sum[21]), "+f"(sum[22]), "+f"(sum[23]),
          "+f"(sum[24]), "+f"(sum[25]), "+f"(sum[26]), "+f"(sum[27]), "+f"(sum[28]), "+f"(sum[29]), "+f"(sum[30]), "+f"(sum[31]),
          "+f"(sum[32]), "+f"(sum[33]), "+f"(sum[34]), "+f"(sum[35]), "+f"(sum[36]), "+f"(sum[37]), "+f"(sum[38]), "+f"(sum[39]),
          "+f"(sum[40]), "+f"(sum[41]), "+f"(sum[42]), "+f"(sum[43]), "+f"(sum[44]), "+f"(sum[45]), "+f"(sum[46]), "+f"(sum[47])
        : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "l"(right), "r"(more));
  }
};
template <>
struct Products<64> {
  static __device__ __forceinline__ void add(
      float (&sum)[32], const unsigned (&left)[4], const unsigned long long right, const int more) {
    asm volatile(
        "{ .reg .pred p; setp.ne.b32 p, %37, 0; "
        "wgmma.mma_async.sync.aligned.m64n64k8.f32.tf32.tf32 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
        "}, {%32, %33, %34, %35}, %36, p, 1, 1; }"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3]), "+f"(sum[4]), "+f"(sum[5]), "+f"(sum[6]), "+f"(sum[7]),
          "+f"(sum[8]), "+f"(sum[9]), "+f"(sum[10]), "+f"(sum[11]), "+f"(sum[12]), "+f"(sum[13]), "+f"(sum[14]), "+f"(sum[15]),
          "+f"(sum[16]), "+f"(sum[17]), "+f"(sum[18]), "+f"(sum[19]), "+f"(sum[20]), "+f"(sum[21]), "+f"(sum[22]), "+f"(sum[23]),
          "+f"(sum[24]), "+f"(sum[25]), "+f"(sum[26]), "+f"(sum[27]), "+f"(sum[28]), "+f"(sum[29]), "+f"(sum[30]), "+f"(sum[31])
        : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "l"(right), "r"(more));
  }
};
template <>
struct Products<32> {
  static __device__ __forceinline__ void add(
      float (&sum)[16], const unsigned (&left)[4], const unsigned long long right, const int more) {
    asm volatile(
        "{ .reg .pred p; setp.ne.b32 p, %21, 0; "
        "wgmma.mma_async.sync.aligned.m64n32k8.f32.tf32.tf32 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15"
        "}, {%16, %17, %18, %19}, %20, p, 1, 1; }"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3]), "+f"(sum[4]), "+f"(sum[5]), "+f"(sum[6]), "+f"(sum[7]),
          "+f"(sum[8]), "+f"(sum[9]), "+f"(sum[10]), "+f"(sum[11]), "+f"(sum[12]), "+f"(sum[13]), "+f"(sum[14]), "+f"(sum[15])
        : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "l"(right), "r"(more));
  }
};

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

// Which columns of the depth a product takes does not matter, if both operands agree on it. A lane of four has the four
// from 4 * lane on and those 16 further on, so that the four read neighbours; a product takes two of each.
__device__ __forceinline__ int column(const int lane, const int i) { return i / 4 * 16 + lane * 4 + i % 4; }
__device__ __forceinline__ int place_of_column(const int k) { return (k / 16 * 4 + k % 4) * 4 + k % 16 / 4; }

// Of All x Depth elements, what a lane multiplies of 16 rows and 32 columns of the depth, straight from memory.
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
#pragma unroll
    for (int i = 0; i < 2; ++i)
#pragma unroll
      for (int j = 0; j < 8; j += AlongDepth ? Width : 1) {
        const int k = start + column(threadIdx.x % 4, j);
        alignas(16) float v[AlongDepth ? Width : 1] = {};
        if (Depth % 32 == 0 || k < Depth) load(v, lines[i] + k * (AlongDepth ? 1ll : All));
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
    return column(threadIdx.x % 32 / 8, (i * (Threads / 32) + threadIdx.x / 32) / (Lines / 8));
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
  // Parted, where the products find it.
  static __device__ __forceinline__ void write(float* const big, float* const small, const float (&v)[COUNT][WIDTH]) {
#pragma unroll
    for (int i = 0; i < COUNT; ++i)
#pragma unroll
      for (int e = 0; e < WIDTH; ++e) {
        const int at = swizzled(line(i), place_of_column(deep(i) + e));
        unsigned parts[2];
        parted(v[i][e], parts[0], parts[1]);
        big[at] = __uint_as_float(parts[0]), small[at] = __uint_as_float(parts[1]);
      }
    show_to_tensors();
  }
};

// A tile whose warpgroups have 64 rows each, in three TF32 products. The right operand is parted into shared memory one
// step ahead, while the tensor cores are at the step before. They round sums towards zero, so small ones come first, each
// step starts from nothing, and the float units add the steps up.
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
    const auto bring = [&](const int step) {
      if (step < to) Rights::write(place(step), place(step) + PART, r);
      if (step + 1 < to) rights.read(r, (step + 1) * DEEP);
    };
    rights.read(r, from * DEEP);
    lefts.read(l, from * DEEP);
    bring(from);
    for (int step = from; step < to; ++step) {
      __syncthreads();
      unsigned big[4][4], small[4][4];
#pragma unroll
      for (int k = 0; k < 4; ++k)
#pragma unroll
        for (int e = 0; e < 4; ++e) parted(l[e % 2][2 * k + e / 2], big[k][e], small[k][e]);
      if (step + 1 < to) lefts.read(l, (step + 1) * DEEP);
      const unsigned long long big_r = described(place(step)), small_r = described(place(step) + PART);
      float fresh[Wide / 2] = {};
      open_products();
#pragma unroll
      for (int k = 0; k < 4; ++k) Products<Wide>::add(fresh, small[k], big_r + 2 * k, k > 0);
#pragma unroll
      for (int k = 0; k < 4; ++k) Products<Wide>::add(fresh, big[k], small_r + 2 * k, 1);
#pragma unroll
      for (int k = 0; k < 4; ++k) Products<Wide>::add(fresh, big[k], big_r + 2 * k, 1);
      close_products();
      bring(step + 1);
      wait_for_products(fresh);
#pragma unroll
      for (int i = 0; i < Wide / 2; ++i) sum[i] += fresh[i];
    }
  }
};


#if SMALL
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
__device__ __forceinline__ void product_0(const int block, const int blocks, float* __restrict__ p_grad_x, const float* __restrict__ p_grad_out, const float* __restrict__ p_weight) {
  const Last_0 last{p_grad_x};
  strips<Shape_0, false, TALL_0, TEAM_0, WARPS_0, VECTOR_0, AHEAD_0>(block, Plain{p_grad_out}, Plain{p_weight}, last);
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
__device__ __forceinline__ void product_1(const int block, const int blocks, float* __restrict__ p_grad_weight, const float* __restrict__ p_grad_out, const float* __restrict__ p_x) {
  const Last_1 last{p_grad_weight};
  strips<Shape_1, true, TALL_1, TEAM_1, WARPS_1, VECTOR_1, AHEAD_1>(block, Plain{p_grad_out}, Plain{p_x}, last);
}

struct Operand_2 {
  const float* p_grad_out;
  template <int Width>
  __device__ __forceinline__ void read(float (&to)[Width], const long long at) const {
    alignas(16) float l0[Width];
    load(l0, p_grad_out + at);
#pragma unroll
    for (int j = 0; j < Width; ++j) {
      const float v0 = l0[j];
      to[j] = v0;
    }
  }
};
struct Shape_2 {
  static constexpr int ROWS = M_2, COLS = N_2, DEPTH = K_2;
};
struct Extra_2 {
};
struct Last_2 {
  static constexpr long long COLS = N_2;
  float* p_grad_bias;
  __device__ __forceinline__ Extra_2 extra(const long long row, const long long c) const {
    return {};
  }
  template <int Run>
  __device__ __forceinline__ void finish(
      const float (&products)[Run], const long long row, const long long first,
      const Extra_2 (&extras)[Run]) const {
    alignas(16) float s_grad_bias[Run];
#pragma unroll
    for (int j = 0; j < Run; ++j) {
      const long long c = first + j;
      const float product = products[j];
      s_grad_bias[j] = product;
    }
    store(p_grad_bias + row * COLS + first, s_grad_bias);
  }
};
__device__ __forceinline__ void product_2(const int block, const int blocks, float* __restrict__ p_grad_bias, const float* __restrict__ p_grad_out) {
  const Last_2 last{p_grad_bias};
  strips<Shape_2, false, TALL_2, TEAM_2, WARPS_2, VECTOR_2, AHEAD_2>(block, Ones{}, Operand_2{p_grad_out}, last);
}

extern "C" __global__ void __launch_bounds__(THREADS_0, LEAST_0) launch0(
    float* __restrict__ p_grad_x,
    const float* __restrict__ p_grad_out,
    const float* __restrict__ p_weight,
    float* __restrict__ p_grad_weight,
    const float* __restrict__ p_x,
    float* __restrict__ p_grad_bias) {
  if (blockIdx.x < 0 + BLOCKS_product_0) {
    if (threadIdx.x < THREADS_product_0)
      product_0(blockIdx.x - (0), BLOCKS_product_0, p_grad_x, p_grad_out, p_weight);
    return;
  }
  if (blockIdx.x < 0 + BLOCKS_product_0 + BLOCKS_product_1) {
    if (threadIdx.x < THREADS_product_1)
      product_1(blockIdx.x - (0 + BLOCKS_product_0), BLOCKS_product_1, p_grad_weight, p_grad_out, p_x);
    return;
  }
  if (blockIdx.x < 0 + BLOCKS_product_0 + BLOCKS_product_1 + BLOCKS_product_2) {
    if (threadIdx.x < THREADS_product_2)
      product_2(blockIdx.x - (0 + BLOCKS_product_0 + BLOCKS_product_1), BLOCKS_product_2, p_grad_bias, p_grad_out);
  }
}
#else
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
__device__ __forceinline__ void product_0(const int block, const int blocks, float* __restrict__ p_grad_x, const float* __restrict__ p_grad_out, const float* __restrict__ p_weight, float* __restrict__ p_parts_0, unsigned* __restrict__ p_arrived_0) {
  const Last_0 last{p_grad_x};
#if SMALL_0
  strips<Shape_0, false, TALL_0, TEAM_0, WARPS_0, VECTOR_0, AHEAD_0>(block, Plain{p_grad_out}, Plain{p_weight}, last);
#else
  constexpr int THREADS = THREADS_product_0;
#if GROUPS_0
  using Core = GroupCore<true, LEFT_WIDTH_0, false, RIGHT_WIDTH_0, HIGH_0, WIDE_0>;
  (void)THREADS;
#else
  using Left = Panel<HIGH_0, 32, true, LEFT_WIDTH_0, THREADS>;
  using Right = Panel<WIDE_0, 32, false, RIGHT_WIDTH_0, THREADS>;
  using Core = TensorCore<Left, Right, HIGH_0, WIDE_0, 32, OWN_HIGH_0, OWN_WIDE_0>;
#endif
  blocked<Shape_0, Core, 3, (STREAMS_0 > 0)>(
      block, blocks, p_grad_out, p_weight, p_parts_0, p_arrived_0, last);
#endif
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
__device__ __forceinline__ void product_1(const int block, const int blocks, float* __restrict__ p_grad_weight, const float* __restrict__ p_grad_out, const float* __restrict__ p_x, float* __restrict__ p_parts_1, unsigned* __restrict__ p_arrived_1) {
  const Last_1 last{p_grad_weight};
#if SMALL_1
  strips<Shape_1, true, TALL_1, TEAM_1, WARPS_1, VECTOR_1, AHEAD_1>(block, Plain{p_grad_out}, Plain{p_x}, last);
#else
  constexpr int THREADS = THREADS_product_1;
#if GROUPS_1
  using Core = GroupCore<false, LEFT_WIDTH_1, false, RIGHT_WIDTH_1, HIGH_1, WIDE_1>;
  (void)THREADS;
#else
  using Left = Panel<HIGH_1, 32, false, LEFT_WIDTH_1, THREADS>;
  using Right = Panel<WIDE_1, 32, false, RIGHT_WIDTH_1, THREADS>;
  using Core = TensorCore<Left, Right, HIGH_1, WIDE_1, 32, OWN_HIGH_1, OWN_WIDE_1>;
#endif
  blocked<Shape_1, Core, 3, (STREAMS_1 > 0)>(
      block, blocks, p_grad_out, p_x, p_parts_1, p_arrived_1, last);
#endif
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
    const float* __restrict__ p_grad_out,
    const float* __restrict__ p_weight,
    float* __restrict__ p_parts_0,
    unsigned* __restrict__ p_arrived_0) {
  let_next_launch_start();
  if (blockIdx.x < 0 + BLOCKS_product_0) {
    if (threadIdx.x < THREADS_product_0)
      product_0(blockIdx.x - (0), BLOCKS_product_0, p_grad_x, p_grad_out, p_weight, p_parts_0, p_arrived_0);
  }
}

extern "C" __global__ void __launch_bounds__(THREADS_1, LEAST_1) launch1(
    float* __restrict__ p_grad_weight,
    const float* __restrict__ p_grad_out,
    const float* __restrict__ p_x,
    float* __restrict__ p_parts_1,
    unsigned* __restrict__ p_arrived_1) {
  let_next_launch_start();
  wait_for_launch_before();
  if (blockIdx.x < 0 + BLOCKS_product_1) {
    if (threadIdx.x < THREADS_product_1)
      product_1(blockIdx.x - (0), BLOCKS_product_1, p_grad_weight, p_grad_out, p_x, p_parts_1, p_arrived_1);
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
#endif

/* plan.py
import math

import kw


def ceil(a, b):
    return -(-a // b)


def power(value):
    return 1 << max(0, math.ceil(math.log2(max(1, value))))


def literal(value):
    if isinstance(value, bool) or isinstance(value, int):
        return str(int(value))
    if value != value:
        return "__int_as_float(0x7fc00000)"
    if abs(value) == math.inf:
        return "INF" if value > 0 else "(-INF)"
    return f"{value!r}f" if "e" in repr(value) or "." in repr(value) else f"{value!r}.0f"


def widest(wanted, size):
    while size % wanted:
        wanted //= 2
    return wanted


def kept(arrays, cols, width, team, parts, registers, shared, teams=1):
    # Of arrays with the share of a row that a thread has: how many lie in shared memory, in how many bytes.
    chunks = ceil(cols, team * width * parts)
    outside = max(0, arrays - registers // (chunks * width))
    size = 4 * outside * team * teams * chunks * width
    return (outside, size) if registers and size <= shared else None


def sides(rows, cols, tall, broad):
    # Of what is not given: where loads are used most often, with a warp left for nearly every multiprocessor.
    talls = [tall] if tall else [side for side in (8, 4, 2, 1) if side < 2 * rows]
    broads = [broad] if broad else [side for side in (8, 4, 2, 1) if side < 2 * cols]
    choices = sorted(((t, b) for t in talls for b in broads), key=lambda one: one[0] * one[1] / (one[0] + one[1]))
    enough = 0.9 * kw.device.multiprocessors
    return next((one for one in reversed(choices) if ceil(rows, one[0]) * ceil(cols, one[1]) >= enough), choices[0])


def tile_for(rows, cols, steps):
    # The largest that is not mostly empty, with tiles for all multiprocessors or a depth to share.
    if rows > 64 and cols > 64 and steps >= 16 and 8 * ceil(rows, 128) * ceil(cols, 128) >= kw.device.multiprocessors:
        return 128, 128
    return (128, 64) if rows > 64 and ceil(rows, 128) * ceil(cols, 64) >= kw.device.multiprocessors else (64, 64)


def streams(tiles, steps, room):
    # Blocks that share the steps of all tiles; none where tiles come out even or are done in a few steps. One block
    # adds up a tile, so not too many share it.
    waves = tiles / room if room else 1
    return 0 if steps < 8 or waves > 0.9 * math.ceil(waves) else min(room, tiles * min(32, steps // 4))


def group_tile_for(rows, cols, steps):
    # The width that takes the least time: a step of a tile costs its columns, and as much as 32 for its rows.
    high = 128 if rows > 64 else 64

    def rounds(tiles):
        if steps < 8:
            return ceil(tiles, kw.device.multiprocessors)
        return tiles / min(kw.device.multiprocessors, tiles * min(32, steps // 4))

    tiles = {wide: ceil(rows, high) * ceil(cols, wide) for wide in (128, 96, 64, 32)}
    return high, min(tiles, key=lambda wide: rounds(tiles[wide]) * (wide + 32))


def plan(x, weight, bias, grad_out, grad_x, grad_weight, grad_bias):
    steps_, definitions_ = [], {}
    small_ = ((x.size(0) * x.size(1) * x.size(2) * weight.size(0) < 2 ** 24 and weight.size(0) <= 1024) or (x.size(0) * x.size(1) <= 8 and weight.size(0) <= x.size(2))) and ((weight.size(0) * x.size(2) * x.size(0) * x.size(1) < 2 ** 24 and x.size(0) * x.size(1) <= 1024) or (weight.size(0) <= 8 and x.size(0) * x.size(1) <= x.size(2))) and (x.size(0) * x.size(1) <= 1024)
    definitions_["SMALL"] = int(small_)
    if small_:
        m_0 = x.size(0) * x.size(1)
        definitions_["M_0"] = m_0
        n_0 = x.size(2)
        definitions_["N_0"] = n_0
        k_0 = weight.size(0)
        definitions_["K_0"] = k_0
        vector_0 = widest(4, n_0)
        definitions_["VECTOR_0"] = vector_0
        tall_0, broad_0 = sides(m_0, ceil(n_0, (32 * vector_0)), 0, 1)
        definitions_["TALL_0"] = tall_0
        definitions_["BROAD_0"] = broad_0
        deep_0 = ceil(k_0, 8)
        definitions_["DEEP_0"] = deep_0
        team_0 = min(8, power(deep_0))
        definitions_["TEAM_0"] = team_0
        warps_0 = max(team_0, 1)
        definitions_["WARPS_0"] = warps_0
        ahead_0 = min(16, ceil(k_0, team_0))
        definitions_["AHEAD_0"] = ahead_0
        blocks_product_0, threads_product_0 = (ceil(ceil(m_0, tall_0) * ceil(ceil(n_0, (32 * vector_0)), broad_0), warps_0 // team_0)), 32 * warps_0
        definitions_["BLOCKS_product_0"] = blocks_product_0
        definitions_["THREADS_product_0"] = threads_product_0
        m_1 = weight.size(0)
        definitions_["M_1"] = m_1
        n_1 = x.size(2)
        definitions_["N_1"] = n_1
        k_1 = x.size(0) * x.size(1)
        definitions_["K_1"] = k_1
        vector_1 = widest(4, n_1)
        definitions_["VECTOR_1"] = vector_1
        tall_1, broad_1 = sides(m_1, ceil(n_1, (32 * vector_1)), 0, 1)
        definitions_["TALL_1"] = tall_1
        definitions_["BROAD_1"] = broad_1
        deep_1 = ceil(k_1, 8)
        definitions_["DEEP_1"] = deep_1
        team_1 = min(8, power(deep_1))
        definitions_["TEAM_1"] = team_1
        warps_1 = max(team_1, 1)
        definitions_["WARPS_1"] = warps_1
        ahead_1 = min(16, ceil(k_1, team_1))
        definitions_["AHEAD_1"] = ahead_1
        blocks_product_1, threads_product_1 = (ceil(ceil(m_1, tall_1) * ceil(ceil(n_1, (32 * vector_1)), broad_1), warps_1 // team_1)), 32 * warps_1
        definitions_["BLOCKS_product_1"] = blocks_product_1
        definitions_["THREADS_product_1"] = threads_product_1
        m_2 = 1
        definitions_["M_2"] = m_2
        n_2 = weight.size(0)
        definitions_["N_2"] = n_2
        k_2 = x.size(0) * x.size(1)
        definitions_["K_2"] = k_2
        definitions_["OPERAND_COLS_2"] = weight.size(0)
        vector_2 = widest(4, n_2)
        definitions_["VECTOR_2"] = vector_2
        tall_2, broad_2 = sides(m_2, ceil(n_2, (32 * vector_2)), 1, 1)
        definitions_["TALL_2"] = tall_2
        definitions_["BROAD_2"] = broad_2
        deep_2 = ceil(k_2, 8)
        definitions_["DEEP_2"] = deep_2
        team_2 = min(8, power(deep_2))
        definitions_["TEAM_2"] = team_2
        warps_2 = max(team_2, 1)
        definitions_["WARPS_2"] = warps_2
        ahead_2 = min(16, ceil(k_2, team_2))
        definitions_["AHEAD_2"] = ahead_2
        blocks_product_2, threads_product_2 = (ceil(ceil(m_2, tall_2) * ceil(ceil(n_2, (32 * vector_2)), broad_2), warps_2 // team_2)), 32 * warps_2
        definitions_["BLOCKS_product_2"] = blocks_product_2
        definitions_["THREADS_product_2"] = threads_product_2
        blocks_ = blocks_product_0 + blocks_product_1 + blocks_product_2
        threads_ = max([threads_product_0, threads_product_1, threads_product_2])
        definitions_["THREADS_0"] = threads_
        definitions_["LEAST_0"] = min(1, 2048 // threads_)
        if blocks_:
            steps_.append(kw.launch("launch0", blocks_, threads_, grad_x, grad_out, weight, grad_weight, x, grad_bias, shared=max(0, 4 * warps_0 * tall_0 * (32 * vector_0) if team_0 > 1 else 0, 4 * warps_1 * tall_1 * (32 * vector_1) if team_1 > 1 else 0, 4 * warps_2 * tall_2 * (32 * vector_2) if team_2 > 1 else 0)))
    else:
        m_0 = x.size(0) * x.size(1)
        definitions_["M_0"] = m_0
        n_0 = x.size(2)
        definitions_["N_0"] = n_0
        k_0 = weight.size(0)
        definitions_["K_0"] = k_0
        small_0 = int((x.size(0) * x.size(1) * x.size(2) * weight.size(0) < 2 ** 24 and weight.size(0) <= 1024) or (x.size(0) * x.size(1) <= 8 and weight.size(0) <= x.size(2)))
        definitions_["SMALL_0"] = small_0
        vector_0 = widest(4, n_0)
        definitions_["VECTOR_0"] = vector_0
        tall_0, broad_0 = sides(m_0, ceil(n_0, (32 * vector_0)), 0, 1)
        definitions_["TALL_0"] = tall_0
        definitions_["BROAD_0"] = broad_0
        deep_0 = ceil(k_0, 8)
        definitions_["DEEP_0"] = deep_0
        team_0 = min(8, power(deep_0))
        definitions_["TEAM_0"] = team_0
        warps_0 = max(team_0, 1)
        definitions_["WARPS_0"] = warps_0
        ahead_0 = min(16, ceil(k_0, team_0))
        definitions_["AHEAD_0"] = ahead_0
        steps_0 = ceil(k_0, 32)
        groups_0 = int(kw.device.architecture == "sm_90a")
        definitions_["GROUPS_0"] = groups_0
        high_0, wide_0 = group_tile_for(m_0, n_0, steps_0) if groups_0 else tile_for(m_0, n_0, steps_0)
        own_high_0, own_wide_0, fit_0 = (16, wide_0, 128 // high_0) if groups_0 else {(128, 128): (64, 32, 1), (128, 64): (64, 32, 2), (64, 128): (32, 64, 2), (64, 64): (32, 32, 4)}[high_0, wide_0]
        pieces_0 = ceil(m_0, high_0) * ceil(n_0, wide_0)
        streams_0 = streams(pieces_0, steps_0, 1 * fit_0 * kw.device.multiprocessors)
        definitions_["STREAMS_0"] = streams_0
        definitions_["HIGH_0"] = high_0
        definitions_["WIDE_0"] = wide_0
        definitions_["OWN_HIGH_0"] = own_high_0
        definitions_["OWN_WIDE_0"] = own_wide_0
        definitions_["LEFT_WIDTH_0"] = widest(4, k_0)
        definitions_["RIGHT_WIDTH_0"] = widest(4, n_0)
        parts_0 = kw.scratch("parts_0", 4 * max(1, 2 * streams_0 * high_0 * wide_0))
        arrived_0 = kw.workspace("arrived_0", 4 * pieces_0)
        blocks_product_0, threads_product_0 = (((ceil(ceil(m_0, tall_0) * ceil(ceil(n_0, (32 * vector_0)), broad_0), warps_0 // team_0)) if small_0 else (streams_0 or pieces_0))), ((32 * warps_0) if small_0 else (high_0 * wide_0 // (own_high_0 * own_wide_0) * 32))
        definitions_["BLOCKS_product_0"] = blocks_product_0
        definitions_["THREADS_product_0"] = threads_product_0
        blocks_ = blocks_product_0
        threads_ = max([threads_product_0])
        definitions_["THREADS_0"] = threads_
        definitions_["LEAST_0"] = min(((1) if small_0 else (fit_0)), 2048 // threads_)
        if blocks_:
            steps_.append(kw.launch("launch0", blocks_, threads_, grad_x, grad_out, weight, parts_0, arrived_0, shared=max(0, ((4 * warps_0 * tall_0 * (32 * vector_0) if team_0 > 1 else 0) if small_0 else (max(4 * high_0 * (wide_0 + 4) * (n_0 % 2), (1024 + 16 * 32 * wide_0) if groups_0 else (4 * 3 * (high_0 * 36 + 32 * (wide_0 + 8)))))))))
        m_1 = weight.size(0)
        definitions_["M_1"] = m_1
        n_1 = x.size(2)
        definitions_["N_1"] = n_1
        k_1 = x.size(0) * x.size(1)
        definitions_["K_1"] = k_1
        small_1 = int((weight.size(0) * x.size(2) * x.size(0) * x.size(1) < 2 ** 24 and x.size(0) * x.size(1) <= 1024) or (weight.size(0) <= 8 and x.size(0) * x.size(1) <= x.size(2)))
        definitions_["SMALL_1"] = small_1
        vector_1 = widest(4, n_1)
        definitions_["VECTOR_1"] = vector_1
        tall_1, broad_1 = sides(m_1, ceil(n_1, (32 * vector_1)), 0, 1)
        definitions_["TALL_1"] = tall_1
        definitions_["BROAD_1"] = broad_1
        deep_1 = ceil(k_1, 8)
        definitions_["DEEP_1"] = deep_1
        team_1 = min(8, power(deep_1))
        definitions_["TEAM_1"] = team_1
        warps_1 = max(team_1, 1)
        definitions_["WARPS_1"] = warps_1
        ahead_1 = min(16, ceil(k_1, team_1))
        definitions_["AHEAD_1"] = ahead_1
        steps_1 = ceil(k_1, 32)
        groups_1 = int(kw.device.architecture == "sm_90a")
        definitions_["GROUPS_1"] = groups_1
        high_1, wide_1 = group_tile_for(m_1, n_1, steps_1) if groups_1 else tile_for(m_1, n_1, steps_1)
        own_high_1, own_wide_1, fit_1 = (16, wide_1, 128 // high_1) if groups_1 else {(128, 128): (64, 32, 1), (128, 64): (64, 32, 2), (64, 128): (32, 64, 2), (64, 64): (32, 32, 4)}[high_1, wide_1]
        pieces_1 = ceil(m_1, high_1) * ceil(n_1, wide_1)
        streams_1 = streams(pieces_1, steps_1, 1 * fit_1 * kw.device.multiprocessors)
        definitions_["STREAMS_1"] = streams_1
        definitions_["HIGH_1"] = high_1
        definitions_["WIDE_1"] = wide_1
        definitions_["OWN_HIGH_1"] = own_high_1
        definitions_["OWN_WIDE_1"] = own_wide_1
        definitions_["LEFT_WIDTH_1"] = widest(4, m_1)
        definitions_["RIGHT_WIDTH_1"] = widest(4, n_1)
        parts_1 = kw.scratch("parts_1", 4 * max(1, 2 * streams_1 * high_1 * wide_1))
        arrived_1 = kw.workspace("arrived_1", 4 * pieces_1)
        blocks_product_1, threads_product_1 = (((ceil(ceil(m_1, tall_1) * ceil(ceil(n_1, (32 * vector_1)), broad_1), warps_1 // team_1)) if small_1 else (streams_1 or pieces_1))), ((32 * warps_1) if small_1 else (high_1 * wide_1 // (own_high_1 * own_wide_1) * 32))
        definitions_["BLOCKS_product_1"] = blocks_product_1
        definitions_["THREADS_product_1"] = threads_product_1
        blocks_ = blocks_product_1
        threads_ = max([threads_product_1])
        definitions_["THREADS_1"] = threads_
        definitions_["LEAST_1"] = min(((1) if small_1 else (fit_1)), 2048 // threads_)
        if blocks_:
            steps_.append(kw.launch("launch1", blocks_, threads_, grad_weight, grad_out, x, parts_1, arrived_1, shared=max(0, ((4 * warps_1 * tall_1 * (32 * vector_1) if team_1 > 1 else 0) if small_1 else (max(4 * high_1 * (wide_1 + 4) * (n_1 % 2), (1024 + 16 * 32 * wide_1) if groups_1 else (4 * 3 * (32 * (high_1 + 8) + 32 * (wide_1 + 8))))))), dependent=bool(steps_) and not (steps_[-1].cooperative or False)))
        rows_2_0, cols_2_0 = x.size(0) * x.size(1), weight.size(0)
        width_2_0 = widest(4, cols_2_0)
        team_2_0 = min(256, max(4, power(ceil(cols_2_0, 8))))
        parts_2_0 = 1
        owned_2_0 = False
        solo_2_0 = False
        teams_2_0 = max(1, 128 // team_2_0) if team_2_0 <= 32 else 1
        groups_2_0 = ceil(rows_2_0, teams_2_0)
        groups_2_0 = min(groups_2_0, kw.device.multiprocessors * max(1, 2 * 256 // (team_2_0 * teams_2_0)))
        chunks_2_0 = ceil(cols_2_0, team_2_0 * width_2_0 * parts_2_0)
        definitions_["ROWS_2_0"] = rows_2_0
        definitions_["COLS_2_0"] = cols_2_0
        definitions_["WIDTH_2_0"] = width_2_0
        definitions_["TEAM_2_0"] = team_2_0
        definitions_["PARTS_2_0"] = parts_2_0
        definitions_["TEAMS_2_0"] = teams_2_0
        definitions_["CHUNKS_2_0"] = chunks_2_0
        definitions_["INDEX_2_0"] = 'int' if rows_2_0 * cols_2_0 < 2 ** 31 else 'long long'
        each_2_0, threads_2_0 = chunks_2_0 * width_2_0, team_2_0 * teams_2_0
        only_2_0 = rows_2_0 == 1
        definitions_["ONLY_2_0"] = int(only_2_0)
        summed_2_0 = int(not only_2_0 and 1 * each_2_0 <= (64 if parts_2_0 == 1 else 0))
        definitions_["COLUMNS_2_0"] = summed_2_0
        partial_2_1 = kw.scratch("partial_2_1", 4 * (cols_2_0 * groups_2_0 * teams_2_0 if not (only_2_0 or owned_2_0) else 1))
        blocks_rows_2_0, threads_rows_2_0 = (groups_2_0 * parts_2_0 if not owned_2_0 else 0), team_2_0 * teams_2_0
        definitions_["BLOCKS_rows_2_0"] = blocks_rows_2_0
        definitions_["THREADS_rows_2_0"] = threads_rows_2_0
        blocks_ = blocks_rows_2_0
        threads_ = max([threads_rows_2_0])
        definitions_["THREADS_2"] = threads_
        definitions_["LEAST_2"] = min(max(1, 0 // threads_2_0), 2048 // threads_)
        if blocks_:
            steps_.append(kw.launch("launch2", blocks_, threads_, partial_2_1, grad_out, grad_bias, dependent=bool(steps_) and not (steps_[-1].cooperative or False)))
        columns_2_0 = weight.size(0)
        definitions_["JOINED_2_0"] = columns_2_0
        sharing_2_0 = min(8, power(groups_2_0 * teams_2_0))
        definitions_["SHARING_2_0"] = sharing_2_0
        definitions_["PARTIALS_2_0"] = groups_2_0 * teams_2_0
        blocks_columns_2_0, threads_columns_2_0 = (ceil(columns_2_0, 256 // sharing_2_0) if not (only_2_0 or owned_2_0) else 0), 256
        definitions_["BLOCKS_columns_2_0"] = blocks_columns_2_0
        definitions_["THREADS_columns_2_0"] = threads_columns_2_0
        blocks_ = blocks_columns_2_0
        threads_ = max([threads_columns_2_0])
        definitions_["THREADS_3"] = threads_
        definitions_["LEAST_3"] = min(1, 2048 // threads_)
        if blocks_:
            steps_.append(kw.launch("launch3", blocks_, threads_, partial_2_1, grad_bias, dependent=bool(steps_) and not (steps_[-1].cooperative or False)))
    return kw.plan(*steps_, definitions=definitions_)
*/
