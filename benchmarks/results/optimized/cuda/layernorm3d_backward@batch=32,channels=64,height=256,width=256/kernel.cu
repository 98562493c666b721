// layernorm3d:backward@batch=32,channels=64,height=256,width=256: about 16 elements a thread and at most 256 threads a row, vectors of 4, 2 persistent blocks on each multiprocessor, rows kept in registers where they fit, what is the same for every row read early and once, a long row split over blocks of 1024 threads that meet in a workspace, few rows of many columns in two goes, the second down the columns, the next row fetched before the work on a row.
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
// What nobody reads again leaves the cache first, and what was written may stay in it.
template <int Width>
__device__ inline void glance(float (&to)[Width], const float* from) {
  using Whole = typename Vector<Width>::type;
  *reinterpret_cast<Whole*>(to) = __ldcs(reinterpret_cast<const Whole*>(from));
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

__device__ __forceinline__ void rows_0_0(const int block, const int blocks, const float* __restrict__ p_x, const float* __restrict__ p_grad_out, const float* __restrict__ p_weight, float* __restrict__ p_partial_0_26, float* __restrict__ p_partial_0_27, unsigned long long* __restrict__ p_met_0_0, float* __restrict__ p_grad_x, float* __restrict__ p_grad_weight, float* __restrict__ p_grad_bias) {
#if KEEP_0_0
  constexpr int COLS = COLS_0_0, WIDTH = WIDTH_0_0, TEAM = TEAM_0_0, TEAMS = TEAMS_0_0;
  constexpr int CHUNKS = CHUNKS_0_0, PARTS = PARTS_0_0;
  using Index = INDEX_0_0;
  constexpr Index ROWS = ROWS_0_0;
  constexpr bool WHOLE = TEAM >= 32 || ROWS % (32 / TEAM) == 0;
  __shared__ float slots[2][3][32];
  int turn = 0;
  (void)slots, (void)turn;
  const int team = threadIdx.x / TEAM, lane = threadIdx.x % TEAM, part = block % PARTS;
  const int me = block / PARTS * TEAMS + team, all = blocks / PARTS * TEAMS;
  (void)WHOLE, (void)lane, (void)part;
  extern __shared__ __align__(16) float kept[];
  (void)kept;
  #if OUTSIDE_0_0 > 0
  const Shelf<WIDTH, TEAM * TEAMS> k0{kept + ((0 * CHUNKS) * TEAM * TEAMS + threadIdx.x) * WIDTH};
  #else
  alignas(16) float k0[CHUNKS][WIDTH];
  #endif
  #if OUTSIDE_0_0 > 1
  const Shelf<WIDTH, TEAM * TEAMS> k2{kept + ((1 * CHUNKS) * TEAM * TEAMS + threadIdx.x) * WIDTH};
  #else
  alignas(16) float k2[CHUNKS][WIDTH];
  #endif
  #if PARTS_0_0 > 1
  const Shelf<WIDTH, TEAM * TEAMS> k1{kept + ((OUTSIDE_0_0 * CHUNKS) * TEAM * TEAMS + threadIdx.x) * WIDTH};
  #else
  alignas(16) float k1[HELD_0_0_1 ? HELD_0_0_1 : 1][WIDTH];
  #endif
  alignas(16) float n0[AHEAD_0_0 ? CHUNKS : 1][WIDTH];
  alignas(16) float n2[AHEAD_0_0 ? CHUNKS : 1][WIDTH];
  const auto fetch = [&](const Index row) {
    if (row >= ROWS) return;
    #pragma unroll CHUNKS
    for (int k = 0; k < CHUNKS; ++k) {
      const int c = ((k * PARTS + part) * TEAM + lane) * WIDTH;
      if (c < COLS) {
        if (AHEAD_0_0) load(n0[AHEAD_0_0 ? k : 0], p_x + row * COLS + c);
        else load(k0[k], p_x + row * COLS + c);
        if (AHEAD_0_0) load(n2[AHEAD_0_0 ? k : 0], p_grad_out + row * COLS + c);
        else load(k2[k], p_grad_out + row * COLS + c);
      }
    }
  };
  fetch(me);
  if (PARTS == 1) {
    #pragma unroll CHUNKS
    for (int k = 0; k < CHUNKS; ++k) {
      const int c = ((k * PARTS + part) * TEAM + lane) * WIDTH;
      if (c < COLS) {
        if (k < HELD_0_0_1) load(k1[k < HELD_0_0_1 ? k : 0], p_weight + c);
      }
    }
  }
  const float v4 = NUMBER_0_4;
  const float v10 = NUMBER_0_10;
  float* const partial26 = p_partial_0_26 + static_cast<long long>(me) * COLS;
  alignas(16) float c26[COLUMNS_0_0 ? CHUNKS : 1][WIDTH];
  for (int k = 0; k < (COLUMNS_0_0 ? CHUNKS : 1); ++k)
    for (int j = 0; j < WIDTH; ++j) c26[k][j] = Sum::nothing();
  if (!COLUMNS_0_0 && !ONLY_0_0)
  #pragma unroll (COLUMNS_0_0 ? CHUNKS : 4)
    for (int k = 0; k < CHUNKS; ++k) {
      const int c = ((k * PARTS + part) * TEAM + lane) * WIDTH;
      if (c < COLS) store(partial26 + c, c26[0]);
    }
  float* const partial27 = p_partial_0_27 + static_cast<long long>(me) * COLS;
  alignas(16) float c27[COLUMNS_0_0 ? CHUNKS : 1][WIDTH];
  for (int k = 0; k < (COLUMNS_0_0 ? CHUNKS : 1); ++k)
    for (int j = 0; j < WIDTH; ++j) c27[k][j] = Sum::nothing();
  if (!COLUMNS_0_0 && !ONLY_0_0)
  #pragma unroll (COLUMNS_0_0 ? CHUNKS : 4)
    for (int k = 0; k < CHUNKS; ++k) {
      const int c = ((k * PARTS + part) * TEAM + lane) * WIDTH;
      if (c < COLS) store(partial27 + c, c27[0]);
    }
  for (Index row = me; row < ROWS; row += all) {
    if (AHEAD_0_0) {
      #pragma unroll CHUNKS
      for (int k = 0; k < CHUNKS; ++k) {
        const int c = ((k * PARTS + part) * TEAM + lane) * WIDTH;
        if (c < COLS) {
          copy(k0[k], n0[AHEAD_0_0 ? k : 0]);
          copy(k2[k], n2[AHEAD_0_0 ? k : 0]);
        }
      }
    }
    if (AHEAD_0_0 && all < ROWS) fetch(row + all);
    float a3;
    float a16;
    float a8;
    float a18;
    if (PARTS > 1) {
    constexpr int VECTORS = COLS / WIDTH, ROUND = PARTS * TEAM;
    const auto share = [](const int i) {  // how many elements part i of the row has
      const int rest = VECTORS % ROUND - i * TEAM;
      return (VECTORS / ROUND * TEAM + (rest < 0 ? 0 : rest < TEAM ? rest : TEAM)) * static_cast<float>(WIDTH);
    };
    const int order = part * TEAM + lane;
    const int own = (VECTORS / ROUND + (order < VECTORS % ROUND)) * WIDTH;
    float near = 0.0f;
    if (own > 0) {
      constexpr int k = 0;
      const int c = order * WIDTH;
      alignas(16) float h0[WIDTH];
      load(h0, k0[k]);
      #pragma unroll
      for (int j = 0; j < WIDTH; ++j) {
        near += h0[j] / WIDTH;
      }
      (void)k;
    }
    a3 = Sum::nothing();
    a8 = Sum::nothing();
    a18 = Sum::nothing();
    a16 = Sum::nothing();
    #pragma unroll CHUNKS
    for (int k = 0; k < CHUNKS; ++k) {
      const int c = ((k * PARTS + part) * TEAM + lane) * WIDTH;
      if (c < COLS) {
        alignas(16) float h0[WIDTH];
        load(h0, k0[k]);
        alignas(16) float h2[WIDTH];
        load(h2, k2[k]);
        alignas(16) float l1[WIDTH];
        load(l1, k < HELD_0_0_1 ? k1[k < HELD_0_0_1 ? k : 0] : p_weight + c);
        #pragma unroll
        for (int j = 0; j < WIDTH; ++j) {
          const float off = h0[j] - near;
          a3 += off;
          a8 += off * off;
          const float v14 = h2[j] * l1[j];
          a18 += v14 * off;
          a16 = Sum::join(a16, static_cast<float>(v14));
        }
      }
    }
    const float beside = own > 0 ? a3 / own : 0.0f;
    a8 -= a3 * beside;
    a18 -= a16 * beside;
    a3 += own * near;
    near += beside;
    a3 = over_team<Sum, TEAM, WHOLE>(a3, slots[turn][0]);
    turn ^= 1;
    const float beyond = own > 0 ? near - a3 / share(part) : 0.0f;
    a8 += own * beyond * beyond;
    a18 += a16 * beyond;
    a8 = over_team<Sum, TEAM, WHOLE>(a8, slots[turn][0]);
    a18 = over_team<Sum, TEAM, WHOLE>(a18, slots[turn][1]);
    a16 = over_team<Sum, TEAM, WHOLE>(a16, slots[turn][2]);
    turn ^= 1;
    if (PARTS > 1) {
      unsigned long long* const words = p_met_0_0 + row * (4 * PARTS + 1);
      unsigned long long* const words_a3 = words + 0 * PARTS;
      unsigned long long* const words_a8 = words + 1 * PARTS;
      unsigned long long* const words_a18 = words + 2 * PARTS;
      unsigned long long* const words_a16 = words + 3 * PARTS;
      if (threadIdx.x == 0) {
        tell(words_a3 + part, a3);
        tell(words_a8 + part, a8);
        tell(words_a18 + part, a18);
        tell(words_a16 + part, a16);
      }
      constexpr int EACH = (PARTS + TEAM - 1) / TEAM;
      float sums[EACH];
      a3 = 0.0f;
      #pragma unroll
      for (int e = 0; e < EACH; ++e) {
        const int i = e * TEAM + lane;
        sums[e] = i < PARTS ? heard<float>(words_a3 + i) : 0.0f;
        a3 += sums[e];
      }
      a3 = over_team<Sum, TEAM>(a3, slots[turn][0]);
      turn ^= 1;
      a8 = Sum::nothing();
      a18 = Sum::nothing();
      a16 = Sum::nothing();
      #pragma unroll
      for (int e = 0; e < EACH; ++e) {
        const int i = e * TEAM + lane;
        if (i < PARTS) {
          const float count = share(i), off = sums[e] / count - a3 / COLS;
          const float part_a16 = heard<float>(words_a16 + i);
          a16 += part_a16;
          a8 += heard<float>(words_a8 + i) + count * off * off;
          a18 += heard<float>(words_a18 + i) + part_a16 * off;
        }
      }
      a8 = over_team<Sum, TEAM>(a8, slots[turn][0]);
      a18 = over_team<Sum, TEAM>(a18, slots[turn][1]);
      a16 = over_team<Sum, TEAM>(a16, slots[turn][2]);
      turn ^= 1;
    }
    } else {
    a3 = Sum::nothing();
    a16 = Sum::nothing();
    #pragma unroll CHUNKS
    for (int k = 0; k < CHUNKS; ++k) {
      const int c = ((k * PARTS + part) * TEAM + lane) * WIDTH;
      if (c < COLS) {
        alignas(16) float h0[WIDTH];
        load(h0, k0[k]);
        alignas(16) float h2[WIDTH];
        load(h2, k2[k]);
        alignas(16) float l1[WIDTH];
        load(l1, k < HELD_0_0_1 ? k1[k < HELD_0_0_1 ? k : 0] : p_weight + c);
        #pragma unroll
        for (int j = 0; j < WIDTH; ++j) {
          a3 = Sum::join(a3, static_cast<float>(h0[j]));
          const float v14 = h2[j] * l1[j];
          a16 = Sum::join(a16, static_cast<float>(v14));
        }
      }
    }
    a3 = over_team<Sum, TEAM, WHOLE>(a3, slots[turn][0]);
    a16 = over_team<Sum, TEAM, WHOLE>(a16, slots[turn][1]);
    turn ^= 1;
    if (PARTS > 1) {
      unsigned long long* const words = p_met_0_0 + row * (4 * PARTS + 1);
      unsigned long long* const words_a3 = words + 0 * PARTS;
      unsigned long long* const words_a16 = words + 1 * PARTS;
      if (threadIdx.x == 0) {
        tell(words_a3 + part, a3);
        tell(words_a16 + part, a16);
      }
      a3 = Sum::nothing();
      for (int i = threadIdx.x; i < PARTS; i += TEAM)
        a3 = Sum::join(a3, heard<float>(words_a3 + i));
      a16 = Sum::nothing();
      for (int i = threadIdx.x; i < PARTS; i += TEAM)
        a16 = Sum::join(a16, heard<float>(words_a16 + i));
      a3 = over_team<Sum, TEAM>(a3, slots[turn][0]);
      a16 = over_team<Sum, TEAM>(a16, slots[turn][1]);
      turn ^= 1;
    }
    const float v3 = static_cast<float>(a3);
    const float v5 = v3 / v4;
    const float v16 = static_cast<float>(a16);
    a8 = Sum::nothing();
    a18 = Sum::nothing();
    #pragma unroll CHUNKS
    for (int k = 0; k < CHUNKS; ++k) {
      const int c = ((k * PARTS + part) * TEAM + lane) * WIDTH;
      if (c < COLS) {
        alignas(16) float h0[WIDTH];
        load(h0, k0[k]);
        alignas(16) float h2[WIDTH];
        load(h2, k2[k]);
        alignas(16) float l1[WIDTH];
        load(l1, k < HELD_0_0_1 ? k1[k < HELD_0_0_1 ? k : 0] : p_weight + c);
        #pragma unroll
        for (int j = 0; j < WIDTH; ++j) {
          const float v6 = h0[j] - v5;
          const float v7 = v6 * v6;
          a8 = Sum::join(a8, static_cast<float>(v7));
          const float v14 = h2[j] * l1[j];
          const float v17 = v14 * v6;
          a18 = Sum::join(a18, static_cast<float>(v17));
        }
      }
    }
    a8 = over_team<Sum, TEAM, WHOLE>(a8, slots[turn][0]);
    a18 = over_team<Sum, TEAM, WHOLE>(a18, slots[turn][1]);
    turn ^= 1;
    if (PARTS > 1) {
      unsigned long long* const words = p_met_0_0 + row * (4 * PARTS + 1);
      unsigned long long* const words_a8 = words + 2 * PARTS;
      unsigned long long* const words_a18 = words + 3 * PARTS;
      if (threadIdx.x == 0) {
        tell(words_a8 + part, a8);
        tell(words_a18 + part, a18);
      }
      a8 = Sum::nothing();
      for (int i = threadIdx.x; i < PARTS; i += TEAM)
        a8 = Sum::join(a8, heard<float>(words_a8 + i));
      a18 = Sum::nothing();
      for (int i = threadIdx.x; i < PARTS; i += TEAM)
        a18 = Sum::join(a18, heard<float>(words_a18 + i));
      a8 = over_team<Sum, TEAM>(a8, slots[turn][0]);
      a18 = over_team<Sum, TEAM>(a18, slots[turn][1]);
      turn ^= 1;
    }
    }
    const float v3 = static_cast<float>(a3);
    const float v5 = v3 / v4;
    const float v16 = static_cast<float>(a16);
    const float v8 = static_cast<float>(a8);
    const float v9 = v8 / v4;
    const float v11 = v9 + v10;
    const float v12 = rsqrtf(v11);
    const float v18 = static_cast<float>(a18);
    const float v19 = v18 * v12;
    const float v23 = v12 / v4;
    unsigned long long came = 0;
    if (PARTS > 1 && threadIdx.x == 0)
      came = atomicAdd(p_met_0_0 + (row + 1) * (4 * PARTS + 1) - 1, 1ull);
    #pragma unroll CHUNKS
    for (int k = 0; k < CHUNKS; ++k) {
      const int c = ((k * PARTS + part) * TEAM + lane) * WIDTH;
      if (c < COLS) {
        alignas(16) float s_grad_x[WIDTH];
        alignas(16) float h2[WIDTH];
        load(h2, k2[k]);
        alignas(16) float l1[WIDTH];
        load(l1, k < HELD_0_0_1 ? k1[k < HELD_0_0_1 ? k : 0] : p_weight + c);
        alignas(16) float h0[WIDTH];
        load(h0, k0[k]);
        if (!COLUMNS_0_0 && !ONLY_0_0) load(c26[0], partial26 + c);
        if (!COLUMNS_0_0 && !ONLY_0_0) load(c27[0], partial27 + c);
        #pragma unroll
        for (int j = 0; j < WIDTH; ++j) {
          const float v14 = h2[j] * l1[j];
          const float v15 = v14 * v4;
          const float v21 = v15 - v16;
          const float v6 = h0[j] - v5;
          const float v13 = v6 * v12;
          const float v20 = v13 * v19;
          const float v22 = v21 - v20;
          const float v24 = v23 * v22;
          s_grad_x[j] = v24;
          const float v25 = h2[j] * v13;
          c26[COLUMNS_0_0 ? k : 0][j] = Sum::join(
              !ONLY_0_0 ? c26[COLUMNS_0_0 ? k : 0][j] : Sum::nothing(), static_cast<float>(v25));
          c27[COLUMNS_0_0 ? k : 0][j] = Sum::join(
              !ONLY_0_0 ? c27[COLUMNS_0_0 ? k : 0][j] : Sum::nothing(), static_cast<float>(h2[j]));
        }
        store(p_grad_x + row * COLS + c, s_grad_x);
        if (!COLUMNS_0_0 && !ONLY_0_0) store(partial26 + c, c26[0]);
        if (!COLUMNS_0_0 && !ONLY_0_0) store(partial27 + c, c27[0]);
        if (ONLY_0_0) {
          alignas(16) float r_grad_weight[WIDTH];
          alignas(16) float r_grad_bias[WIDTH];
          #pragma unroll
          for (int j = 0; j < WIDTH; ++j) {
            const float a26 = c26[0][j];
            const float a27 = c27[0][j];
            const float v26 = a26;
            const float v27 = a27;
            r_grad_weight[j] = v26;
            r_grad_bias[j] = v27;
          }
          store(p_grad_weight + c, r_grad_weight);
          store(p_grad_bias + c, r_grad_bias);
        }
      }
    }
    if (PARTS > 1 && threadIdx.x < 32) {
      if (__shfl_sync(0xffffffffu, came, 0) == PARTS - 1)
        for (int i = threadIdx.x; i <= 4 * PARTS; i += 32)
          p_met_0_0[row * (4 * PARTS + 1) + i] = 0;
    }
    if (!AHEAD_0_0 && all < ROWS) fetch(row + all);
  }
  if (COLUMNS_0_0)
  #pragma unroll (COLUMNS_0_0 ? CHUNKS : 4)
    for (int k = 0; k < CHUNKS; ++k) {
      const int c = ((k * PARTS + part) * TEAM + lane) * WIDTH;
      if (c < COLS) store(partial26 + c, c26[COLUMNS_0_0 ? k : 0]);
    }
  if (COLUMNS_0_0)
  #pragma unroll (COLUMNS_0_0 ? CHUNKS : 4)
    for (int k = 0; k < CHUNKS; ++k) {
      const int c = ((k * PARTS + part) * TEAM + lane) * WIDTH;
      if (c < COLS) store(partial27 + c, c27[COLUMNS_0_0 ? k : 0]);
    }
#else
  constexpr int COLS = COLS_0_0, WIDTH = WIDTH_0_0, TEAM = TEAM_0_0, TEAMS = TEAMS_0_0;
  constexpr int CHUNKS = CHUNKS_0_0, PARTS = PARTS_0_0;
  using Index = INDEX_0_0;
  constexpr Index ROWS = ROWS_0_0;
  constexpr bool WHOLE = TEAM >= 32 || ROWS % (32 / TEAM) == 0;
  __shared__ float slots[2][3][32];
  int turn = 0;
  (void)slots, (void)turn;
  const int team = threadIdx.x / TEAM, lane = threadIdx.x % TEAM, part = block % PARTS;
  const int me = block / PARTS * TEAMS + team, all = blocks / PARTS * TEAMS;
  (void)WHOLE, (void)lane, (void)part;
  const float v4 = NUMBER_0_4;
  const float v10 = NUMBER_0_10;
  float* const partial26 = p_partial_0_26 + static_cast<long long>(me) * COLS;
  alignas(16) float c26[COLUMNS_0_0 ? CHUNKS : 1][WIDTH];
  for (int k = 0; k < (COLUMNS_0_0 ? CHUNKS : 1); ++k)
    for (int j = 0; j < WIDTH; ++j) c26[k][j] = Sum::nothing();
  if (!COLUMNS_0_0 && !ONLY_0_0)
  #pragma unroll (COLUMNS_0_0 ? CHUNKS : 4)
    for (int k = 0; k < CHUNKS; ++k) {
      const int c = ((k * PARTS + part) * TEAM + lane) * WIDTH;
      if (c < COLS) store(partial26 + c, c26[0]);
    }
  float* const partial27 = p_partial_0_27 + static_cast<long long>(me) * COLS;
  alignas(16) float c27[COLUMNS_0_0 ? CHUNKS : 1][WIDTH];
  for (int k = 0; k < (COLUMNS_0_0 ? CHUNKS : 1); ++k)
    for (int j = 0; j < WIDTH; ++j) c27[k][j] = Sum::nothing();
  if (!COLUMNS_0_0 && !ONLY_0_0)
  #pragma unroll (COLUMNS_0_0 ? CHUNKS : 4)
    for (int k = 0; k < CHUNKS; ++k) {
      const int c = ((k * PARTS + part) * TEAM + lane) * WIDTH;
      if (c < COLS) store(partial27 + c, c27[0]);
    }
  for (Index row = me; row < ROWS; row += all) {
    float a3;
    float a16;
    float a8;
    float a18;
    {
      constexpr int VECTORS = COLS / WIDTH, ROUND = PARTS * TEAM;
      const auto share = [](const int i) {  // how many elements part i of the row has
        const int rest = VECTORS % ROUND - i * TEAM;
        return (VECTORS / ROUND * TEAM + (rest < 0 ? 0 : rest < TEAM ? rest : TEAM)) * static_cast<float>(WIDTH);
      };
      const int order = part * TEAM + lane;
      const int own = (VECTORS / ROUND + (order < VECTORS % ROUND)) * WIDTH;
      float near = 0.0f;
      if (own > 0) {
        constexpr int k = 0;
        const int c = order * WIDTH;
        alignas(16) float l0[WIDTH];
        load(l0, p_x + row * COLS + c);
        #pragma unroll
        for (int j = 0; j < WIDTH; ++j) {
          near += l0[j] / WIDTH;
        }
        (void)k;
      }
      a3 = Sum::nothing();
      a8 = Sum::nothing();
      a18 = Sum::nothing();
      a16 = Sum::nothing();
      #pragma unroll (COLUMNS_0_0 ? CHUNKS : 4)
      for (int k = 0; k < CHUNKS; ++k) {
        const int c = ((k * PARTS + part) * TEAM + lane) * WIDTH;
        if (c < COLS) {
          alignas(16) float l0[WIDTH];
          load(l0, p_x + row * COLS + c);
          alignas(16) float l2[WIDTH];
          load(l2, p_grad_out + row * COLS + c);
          alignas(16) float l1[WIDTH];
          load(l1, p_weight + c);
          #pragma unroll
          for (int j = 0; j < WIDTH; ++j) {
            const float off = l0[j] - near;
            a3 += off;
            a8 += off * off;
            const float v14 = l2[j] * l1[j];
            a18 += v14 * off;
            a16 = Sum::join(a16, static_cast<float>(v14));
          }
        }
      }
      const float beside = own > 0 ? a3 / own : 0.0f;
      a8 -= a3 * beside;
      a18 -= a16 * beside;
      a3 += own * near;
      near += beside;
      a3 = over_team<Sum, TEAM, WHOLE>(a3, slots[turn][0]);
      turn ^= 1;
      const float beyond = own > 0 ? near - a3 / share(part) : 0.0f;
      a8 += own * beyond * beyond;
      a18 += a16 * beyond;
      a8 = over_team<Sum, TEAM, WHOLE>(a8, slots[turn][0]);
      a18 = over_team<Sum, TEAM, WHOLE>(a18, slots[turn][1]);
      a16 = over_team<Sum, TEAM, WHOLE>(a16, slots[turn][2]);
      turn ^= 1;
      if (PARTS > 1) {
        unsigned long long* const words = p_met_0_0 + row * (4 * PARTS + 1);
        unsigned long long* const words_a3 = words + 0 * PARTS;
        unsigned long long* const words_a8 = words + 1 * PARTS;
        unsigned long long* const words_a18 = words + 2 * PARTS;
        unsigned long long* const words_a16 = words + 3 * PARTS;
        if (threadIdx.x == 0) {
          tell(words_a3 + part, a3);
          tell(words_a8 + part, a8);
          tell(words_a18 + part, a18);
          tell(words_a16 + part, a16);
        }
        constexpr int EACH = (PARTS + TEAM - 1) / TEAM;
        float sums[EACH];
        a3 = 0.0f;
        #pragma unroll
        for (int e = 0; e < EACH; ++e) {
          const int i = e * TEAM + lane;
          sums[e] = i < PARTS ? heard<float>(words_a3 + i) : 0.0f;
          a3 += sums[e];
        }
        a3 = over_team<Sum, TEAM>(a3, slots[turn][0]);
        turn ^= 1;
        a8 = Sum::nothing();
        a18 = Sum::nothing();
        a16 = Sum::nothing();
        #pragma unroll
        for (int e = 0; e < EACH; ++e) {
          const int i = e * TEAM + lane;
          if (i < PARTS) {
            const float count = share(i), off = sums[e] / count - a3 / COLS;
            const float part_a16 = heard<float>(words_a16 + i);
            a16 += part_a16;
            a8 += heard<float>(words_a8 + i) + count * off * off;
            a18 += heard<float>(words_a18 + i) + part_a16 * off;
          }
        }
        a8 = over_team<Sum, TEAM>(a8, slots[turn][0]);
        a18 = over_team<Sum, TEAM>(a18, slots[turn][1]);
        a16 = over_team<Sum, TEAM>(a16, slots[turn][2]);
        turn ^= 1;
      }
    }
    const float v3 = static_cast<float>(a3);
    const float v5 = v3 / v4;
    const float v16 = static_cast<float>(a16);
    const float v8 = static_cast<float>(a8);
    const float v9 = v8 / v4;
    const float v11 = v9 + v10;
    const float v12 = rsqrtf(v11);
    const float v18 = static_cast<float>(a18);
    const float v19 = v18 * v12;
    const float v23 = v12 / v4;
    unsigned long long came = 0;
    if (PARTS > 1 && threadIdx.x == 0)
      came = atomicAdd(p_met_0_0 + (row + 1) * (4 * PARTS + 1) - 1, 1ull);
    #pragma unroll (COLUMNS_0_0 ? CHUNKS : 4)
    for (int k = 0; k < CHUNKS; ++k) {
      const int c = ((k * PARTS + part) * TEAM + lane) * WIDTH;
      if (c < COLS) {
        alignas(16) float s_grad_x[WIDTH];
        alignas(16) float l2[WIDTH];
        load(l2, p_grad_out + row * COLS + c);
        alignas(16) float l1[WIDTH];
        load(l1, p_weight + c);
        alignas(16) float l0[WIDTH];
        load(l0, p_x + row * COLS + c);
        if (!COLUMNS_0_0 && !ONLY_0_0) load(c26[0], partial26 + c);
        if (!COLUMNS_0_0 && !ONLY_0_0) load(c27[0], partial27 + c);
        #pragma unroll
        for (int j = 0; j < WIDTH; ++j) {
          const float v14 = l2[j] * l1[j];
          const float v15 = v14 * v4;
          const float v21 = v15 - v16;
          const float v6 = l0[j] - v5;
          const float v13 = v6 * v12;
          const float v20 = v13 * v19;
          const float v22 = v21 - v20;
          const float v24 = v23 * v22;
          s_grad_x[j] = v24;
          const float v25 = l2[j] * v13;
          c26[COLUMNS_0_0 ? k : 0][j] = Sum::join(
              !ONLY_0_0 ? c26[COLUMNS_0_0 ? k : 0][j] : Sum::nothing(), static_cast<float>(v25));
          c27[COLUMNS_0_0 ? k : 0][j] = Sum::join(
              !ONLY_0_0 ? c27[COLUMNS_0_0 ? k : 0][j] : Sum::nothing(), static_cast<float>(l2[j]));
        }
        store(p_grad_x + row * COLS + c, s_grad_x);
        if (!COLUMNS_0_0 && !ONLY_0_0) store(partial26 + c, c26[0]);
        if (!COLUMNS_0_0 && !ONLY_0_0) store(partial27 + c, c27[0]);
        if (ONLY_0_0) {
          alignas(16) float r_grad_weight[WIDTH];
          alignas(16) float r_grad_bias[WIDTH];
          #pragma unroll
          for (int j = 0; j < WIDTH; ++j) {
            const float a26 = c26[0][j];
            const float a27 = c27[0][j];
            const float v26 = a26;
            const float v27 = a27;
            r_grad_weight[j] = v26;
            r_grad_bias[j] = v27;
          }
          store(p_grad_weight + c, r_grad_weight);
          store(p_grad_bias + c, r_grad_bias);
        }
      }
    }
    if (PARTS > 1 && threadIdx.x < 32) {
      if (__shfl_sync(0xffffffffu, came, 0) == PARTS - 1)
        for (int i = threadIdx.x; i <= 4 * PARTS; i += 32)
          p_met_0_0[row * (4 * PARTS + 1) + i] = 0;
    }
  }
  if (COLUMNS_0_0)
  #pragma unroll (COLUMNS_0_0 ? CHUNKS : 4)
    for (int k = 0; k < CHUNKS; ++k) {
      const int c = ((k * PARTS + part) * TEAM + lane) * WIDTH;
      if (c < COLS) store(partial26 + c, c26[COLUMNS_0_0 ? k : 0]);
    }
  if (COLUMNS_0_0)
  #pragma unroll (COLUMNS_0_0 ? CHUNKS : 4)
    for (int k = 0; k < CHUNKS; ++k) {
      const int c = ((k * PARTS + part) * TEAM + lane) * WIDTH;
      if (c < COLS) store(partial27 + c, c27[COLUMNS_0_0 ? k : 0]);
    }
#endif
}

__device__ __forceinline__ void columns_0_0(const int block, const int blocks, const float* __restrict__ p_partial_0_26, const float* __restrict__ p_partial_0_27, float* __restrict__ p_grad_weight, float* __restrict__ p_grad_bias) {
  constexpr int COLS = JOINED_0_0, PARTIALS = PARTIALS_0_0, GROUPS = SHARING_0_0;
  constexpr int LANES = 256 / GROUPS;
  __shared__ float found[2][GROUPS][LANES];
  const int lane = threadIdx.x % LANES, group = threadIdx.x / LANES;
  const int c = block * LANES + lane;
  float a26 = Sum::nothing();
  if (c < COLS)
  #pragma unroll 4
    for (int i = group; i < PARTIALS; i += GROUPS)
      a26 = Sum::join(a26, p_partial_0_26[static_cast<long long>(i) * COLS + c]);
  found[0][group][lane] = a26;
  float a27 = Sum::nothing();
  if (c < COLS)
  #pragma unroll 4
    for (int i = group; i < PARTIALS; i += GROUPS)
      a27 = Sum::join(a27, p_partial_0_27[static_cast<long long>(i) * COLS + c]);
  found[1][group][lane] = a27;
  __syncthreads();
  if (group == 0 && c < COLS) {
    for (int i = 1; i < GROUPS; ++i) a26 = Sum::join(a26, found[0][i][lane]);
    for (int i = 1; i < GROUPS; ++i) a27 = Sum::join(a27, found[1][i][lane]);
    const float v26 = a26;
    const float v27 = a27;
    p_grad_weight[c] = v26;
    p_grad_bias[c] = v27;
  }
}

__device__ __forceinline__ void shares_0_0_owned(const int block, const int blocks, const float* __restrict__ p_weight, const float* __restrict__ p_x, const float* __restrict__ p_grad_out, float* __restrict__ p_shares_0_0_owned) {
  constexpr int COLS = COLS_0_0_owned, WIDTH = WIDTH_0_0_owned, TEAM = 256, CHUNKS = 4;
  constexpr int PARTS = PARTS_0_0_owned;
  using Index = INDEX_0_0_owned;
  constexpr Index ROWS = ROWS_0_0_owned;
  constexpr bool WHOLE = true;
  (void)WHOLE, (void)CHUNKS, (void)TEAM, (void)ROWS, (void)PARTS;
  const int lane = threadIdx.x, part = block;
  __shared__ float slots[2][3][32];
  int turn = 0;
  (void)slots, (void)turn;
  alignas(16) float k1[CHUNKS][WIDTH];
  #pragma unroll CHUNKS
  for (int k = 0; k < CHUNKS; ++k) {
    const int c = ((k * PARTS + part) * TEAM + lane) * WIDTH;
    if (c < COLS) {
      load(k1[k], p_weight + c);
    }
  }
  const float v4 = NUMBER_0_4;
  const float v10 = NUMBER_0_10;
  for (Index row = 0; row < ROWS; ++row) {
    float a3, a8, a18, a16;
    constexpr int VECTORS = COLS / WIDTH, ROUND = PARTS * TEAM;
    const auto share = [](const int i) {  // how many elements part i of the row has
      const int rest = VECTORS % ROUND - i * TEAM;
      return (VECTORS / ROUND * TEAM + (rest < 0 ? 0 : rest < TEAM ? rest : TEAM)) * static_cast<float>(WIDTH);
    };
    const int order = part * TEAM + lane;
    const int own = (VECTORS / ROUND + (order < VECTORS % ROUND)) * WIDTH;
    float near = 0.0f;
    if (own > 0) {
      constexpr int k = 0;
      const int c = order * WIDTH;
      alignas(16) float l0[WIDTH];
      load(l0, p_x + row * COLS + c);
      #pragma unroll
      for (int j = 0; j < WIDTH; ++j) {
        near += l0[j] / WIDTH;
      }
      (void)k;
    }
    a3 = Sum::nothing();
    a8 = Sum::nothing();
    a18 = Sum::nothing();
    a16 = Sum::nothing();
    #pragma unroll CHUNKS
    for (int k = 0; k < CHUNKS; ++k) {
      const int c = ((k * PARTS + part) * TEAM + lane) * WIDTH;
      if (c < COLS) {
        alignas(16) float l0[WIDTH];
        load(l0, p_x + row * COLS + c);
        alignas(16) float l2[WIDTH];
        load(l2, p_grad_out + row * COLS + c);
        alignas(16) float l1[WIDTH];
        load(l1, k < CHUNKS ? k1[k < CHUNKS ? k : 0] : p_weight + c);
        #pragma unroll
        for (int j = 0; j < WIDTH; ++j) {
          const float off = l0[j] - near;
          a3 += off;
          a8 += off * off;
          const float v14 = l2[j] * l1[j];
          a18 += v14 * off;
          a16 = Sum::join(a16, static_cast<float>(v14));
        }
      }
    }
    const float beside = own > 0 ? a3 / own : 0.0f;
    a8 -= a3 * beside;
    a18 -= a16 * beside;
    a3 += own * near;
    near += beside;
    a3 = over_team<Sum, TEAM, WHOLE>(a3, slots[turn][0]);
    turn ^= 1;
    const float beyond = own > 0 ? near - a3 / share(part) : 0.0f;
    a8 += own * beyond * beyond;
    a18 += a16 * beyond;
    a8 = over_team<Sum, TEAM, WHOLE>(a8, slots[turn][0]);
    a18 = over_team<Sum, TEAM, WHOLE>(a18, slots[turn][1]);
    a16 = over_team<Sum, TEAM, WHOLE>(a16, slots[turn][2]);
    turn ^= 1;
    if (threadIdx.x == 0) {
      float* const share = p_shares_0_0_owned + (row * PARTS + part) * 4;
      share[0] = a3;
      share[1] = a8;
      share[2] = a18;
      share[3] = a16;
    }
  }
}

__device__ __forceinline__ void results_0_0_owned(const int block, const int blocks, float* __restrict__ p_shares_0_0_owned, float* __restrict__ p_result_0_5, float* __restrict__ p_result_0_12, float* __restrict__ p_result_0_16, float* __restrict__ p_result_0_19, float* __restrict__ p_result_0_23) {
  constexpr int COLS = COLS_0_0_owned, WIDTH = WIDTH_0_0_owned, TEAM = 256, CHUNKS = 4;
  constexpr int PARTS = PARTS_0_0_owned;
  using Index = INDEX_0_0_owned;
  constexpr Index ROWS = ROWS_0_0_owned;
  constexpr bool WHOLE = true;
  (void)WHOLE, (void)CHUNKS, (void)TEAM, (void)ROWS, (void)PARTS;
  const Index row = block;
  const int lane = threadIdx.x, part = 0;
  __shared__ float slots[2][3][32];
  int turn = 0;
  (void)slots, (void)turn;
  const float v4 = NUMBER_0_4;
  const float v10 = NUMBER_0_10;
  float a3, a8, a18, a16;
  constexpr int VECTORS = COLS / WIDTH, ROUND = PARTS * TEAM;
  const auto share = [](const int i) {  // how many elements part i of the row has
    const int rest = VECTORS % ROUND - i * TEAM;
    return (VECTORS / ROUND * TEAM + (rest < 0 ? 0 : rest < TEAM ? rest : TEAM)) * static_cast<float>(WIDTH);
  };
  const int order = part * TEAM + lane;
  const int own = (VECTORS / ROUND + (order < VECTORS % ROUND)) * WIDTH;
  (void)own;
  constexpr int EACH = (PARTS + TEAM - 1) / TEAM;
  float sums[EACH];
  a3 = 0.0f;
  #pragma unroll
  for (int e = 0; e < EACH; ++e) {
    const int i = e * TEAM + lane;
    sums[e] = i < PARTS ? p_shares_0_0_owned[(row * PARTS + i) * 4 + 0] : 0.0f;
    a3 += sums[e];
  }
  a3 = over_team<Sum, TEAM>(a3, slots[turn][0]);
  turn ^= 1;
  a8 = Sum::nothing();
  a18 = Sum::nothing();
  a16 = Sum::nothing();
  #pragma unroll
  for (int e = 0; e < EACH; ++e) {
    const int i = e * TEAM + lane;
    if (i < PARTS) {
      const float count = share(i), off = sums[e] / count - a3 / COLS;
      const float part_a16 = p_shares_0_0_owned[(row * PARTS + i) * 4 + 3];
      a16 += part_a16;
      a8 += p_shares_0_0_owned[(row * PARTS + i) * 4 + 1] + count * off * off;
      a18 += p_shares_0_0_owned[(row * PARTS + i) * 4 + 2] + part_a16 * off;
    }
  }
  a8 = over_team<Sum, TEAM>(a8, slots[turn][0]);
  a18 = over_team<Sum, TEAM>(a18, slots[turn][1]);
  a16 = over_team<Sum, TEAM>(a16, slots[turn][2]);
  turn ^= 1;
  const float v3 = static_cast<float>(a3);
  const float v5 = v3 / v4;
  const float v16 = static_cast<float>(a16);
  const float v8 = static_cast<float>(a8);
  const float v9 = v8 / v4;
  const float v11 = v9 + v10;
  const float v12 = rsqrtf(v11);
  const float v18 = static_cast<float>(a18);
  const float v19 = v18 * v12;
  const float v23 = v12 / v4;
  (void)part;
  if (lane == 0) {
    p_result_0_5[row] = v5;
    p_result_0_12[row] = v12;
    p_result_0_16[row] = v16;
    p_result_0_19[row] = v19;
    p_result_0_23[row] = v23;
  }
}

__device__ __forceinline__ void owners_0_0_owned(const int block, const int blocks, const float* __restrict__ p_weight, const float* __restrict__ p_result_0_5, const float* __restrict__ p_result_0_12, const float* __restrict__ p_result_0_16, const float* __restrict__ p_result_0_19, const float* __restrict__ p_result_0_23, const float* __restrict__ p_grad_out, const float* __restrict__ p_x, float* __restrict__ p_grad_x, float* __restrict__ p_grad_weight, float* __restrict__ p_grad_bias) {
  constexpr int COLS = COLS_0_0_owned, WIDTH = WIDTH_0_0_owned, TEAM = 256, CHUNKS = 4;
  constexpr int PARTS = PARTS_0_0_owned;
  using Index = INDEX_0_0_owned;
  constexpr Index ROWS = ROWS_0_0_owned;
  constexpr bool WHOLE = true;
  (void)WHOLE, (void)CHUNKS, (void)TEAM, (void)ROWS, (void)PARTS;
  const int c = (block * 256 + threadIdx.x) * WIDTH;
  constexpr int k = 0;
  if (c >= COLS) return;
  (void)k;
  alignas(16) float k1[1][WIDTH];
  load(k1[0], p_weight + c);
  const float v4 = NUMBER_0_4;
  const float v10 = NUMBER_0_10;
  alignas(16) float c26[1][WIDTH];
  for (int j = 0; j < WIDTH; ++j) c26[0][j] = Sum::nothing();
  alignas(16) float c27[1][WIDTH];
  for (int j = 0; j < WIDTH; ++j) c27[0][j] = Sum::nothing();
  #pragma unroll 4
  for (Index row = 0; row < ROWS; ++row) {
    const float v5 = p_result_0_5[row];
    const float v12 = p_result_0_12[row];
    const float v16 = p_result_0_16[row];
    const float v19 = p_result_0_19[row];
    const float v23 = p_result_0_23[row];
    alignas(16) float s_grad_x[WIDTH];
    alignas(16) float l2[WIDTH];
    load(l2, p_grad_out + row * COLS + c);
    alignas(16) float l1[WIDTH];
    load(l1, k < CHUNKS ? k1[k < CHUNKS ? k : 0] : p_weight + c);
    alignas(16) float l0[WIDTH];
    load(l0, p_x + row * COLS + c);
    #pragma unroll
    for (int j = 0; j < WIDTH; ++j) {
      const float v14 = l2[j] * l1[j];
      const float v15 = v14 * v4;
      const float v21 = v15 - v16;
      const float v6 = l0[j] - v5;
      const float v13 = v6 * v12;
      const float v20 = v13 * v19;
      const float v22 = v21 - v20;
      const float v24 = v23 * v22;
      s_grad_x[j] = v24;
      const float v25 = l2[j] * v13;
      c26[0][j] = Sum::join(c26[0][j], static_cast<float>(v25));
      c27[0][j] = Sum::join(c27[0][j], static_cast<float>(l2[j]));
    }
    store(p_grad_x + row * COLS + c, s_grad_x);
  }
  alignas(16) float r_grad_weight[WIDTH];
  alignas(16) float r_grad_bias[WIDTH];
  #pragma unroll
  for (int j = 0; j < WIDTH; ++j) {
    const float a26 = c26[0][j];
    const float a27 = c27[0][j];
    const float v26 = a26;
    const float v27 = a27;
    r_grad_weight[j] = v26;
    r_grad_bias[j] = v27;
  }
  store(p_grad_weight + c, r_grad_weight);
  store(p_grad_bias + c, r_grad_bias);
}

extern "C" __global__ void __launch_bounds__(THREADS_0, LEAST_0) launch0(
    const float* __restrict__ p_x,
    const float* __restrict__ p_grad_out,
    const float* __restrict__ p_weight,
    float* __restrict__ p_partial_0_26,
    float* __restrict__ p_partial_0_27,
    unsigned long long* __restrict__ p_met_0_0,
    float* __restrict__ p_grad_x,
    float* __restrict__ p_grad_weight,
    float* __restrict__ p_grad_bias) {
  let_next_launch_start();
  if (blockIdx.x < 0 + BLOCKS_rows_0_0) {
    if (threadIdx.x < THREADS_rows_0_0)
      rows_0_0(blockIdx.x - (0), BLOCKS_rows_0_0, p_x, p_grad_out, p_weight, p_partial_0_26, p_partial_0_27, p_met_0_0, p_grad_x, p_grad_weight, p_grad_bias);
  }
}

extern "C" __global__ void __launch_bounds__(THREADS_1, LEAST_1) launch1(
    const float* __restrict__ p_partial_0_26,
    const float* __restrict__ p_partial_0_27,
    float* __restrict__ p_grad_weight,
    float* __restrict__ p_grad_bias,
    const float* __restrict__ p_weight,
    const float* __restrict__ p_x,
    const float* __restrict__ p_grad_out,
    float* __restrict__ p_shares_0_0_owned) {
  let_next_launch_start();
  wait_for_launch_before();
  if (blockIdx.x < 0 + BLOCKS_columns_0_0) {
    if (threadIdx.x < THREADS_columns_0_0)
      columns_0_0(blockIdx.x - (0), BLOCKS_columns_0_0, p_partial_0_26, p_partial_0_27, p_grad_weight, p_grad_bias);
    return;
  }
  if (blockIdx.x < 0 + BLOCKS_columns_0_0 + BLOCKS_shares_0_0_owned) {
    if (threadIdx.x < THREADS_shares_0_0_owned)
      shares_0_0_owned(blockIdx.x - (0 + BLOCKS_columns_0_0), BLOCKS_shares_0_0_owned, p_weight, p_x, p_grad_out, p_shares_0_0_owned);
  }
}

extern "C" __global__ void __launch_bounds__(THREADS_2, LEAST_2) launch2(
    float* __restrict__ p_shares_0_0_owned,
    float* __restrict__ p_result_0_5,
    float* __restrict__ p_result_0_12,
    float* __restrict__ p_result_0_16,
    float* __restrict__ p_result_0_19,
    float* __restrict__ p_result_0_23) {
  let_next_launch_start();
  wait_for_launch_before();
  if (blockIdx.x < 0 + BLOCKS_results_0_0_owned) {
    if (threadIdx.x < THREADS_results_0_0_owned)
      results_0_0_owned(blockIdx.x - (0), BLOCKS_results_0_0_owned, p_shares_0_0_owned, p_result_0_5, p_result_0_12, p_result_0_16, p_result_0_19, p_result_0_23);
  }
}

extern "C" __global__ void __launch_bounds__(THREADS_3, LEAST_3) launch3(
    const float* __restrict__ p_weight,
    const float* __restrict__ p_result_0_5,
    const float* __restrict__ p_result_0_12,
    const float* __restrict__ p_result_0_16,
    const float* __restrict__ p_result_0_19,
    const float* __restrict__ p_result_0_23,
    const float* __restrict__ p_grad_out,
    const float* __restrict__ p_x,
    float* __restrict__ p_grad_x,
    float* __restrict__ p_grad_weight,
    float* __restrict__ p_grad_bias) {
  wait_for_launch_before();
  if (blockIdx.x < 0 + BLOCKS_owners_0_0_owned) {
    if (threadIdx.x < THREADS_owners_0_0_owned)
      owners_0_0_owned(blockIdx.x - (0), BLOCKS_owners_0_0_owned, p_weight, p_result_0_5, p_result_0_12, p_result_0_16, p_result_0_19, p_result_0_23, p_grad_out, p_x, p_grad_x, p_grad_weight, p_grad_bias);
  }
}

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


def plan(x, weight, bias, eps, grad_out, grad_x, grad_weight, grad_bias):
    steps_, definitions_ = [], {}
    rows_0_0, cols_0_0 = x.size(0), x.size(1) * x.size(2) * x.size(3)
    width_0_0 = widest(4, cols_0_0)
    team_0_0 = min(256, max(4, power(ceil(cols_0_0, 16))))
    parts_0_0 = 1
    owned_0_0 = rows_0_0 > 1 and cols_0_0 >= 262144
    solo_0_0 = False
    if cols_0_0 >= 16384 and (2 * rows_0_0 <= kw.device.multiprocessors or cols_0_0 >= 32768) and not solo_0_0:
        team_0_0, room_0_0 = 1024, kw.device.multiprocessors * 1
        most_0_0 = max(1, min(rows_0_0, kw.device.multiprocessors // 2))
        together_0_0 = next((n for n in range(most_0_0, 0, -1) if kept(2, cols_0_0, width_0_0, team_0_0, room_0_0 // n, *(40, kw.device.shared_per_block // 1 - 4096))), most_0_0)
        parts_0_0 = min(room_0_0 // together_0_0, ceil(cols_0_0, team_0_0 * width_0_0))
    teams_0_0 = max(1, 128 // team_0_0) if team_0_0 <= 32 else 1
    groups_0_0 = ceil(rows_0_0, teams_0_0)
    groups_0_0 = min(groups_0_0, kw.device.multiprocessors * max(1, 2 * 256 // (team_0_0 * teams_0_0)))
    groups_0_0 = together_0_0 if parts_0_0 > 1 else groups_0_0
    chunks_0_0 = ceil(cols_0_0, team_0_0 * width_0_0 * parts_0_0)
    definitions_["ROWS_0_0"] = rows_0_0
    definitions_["COLS_0_0"] = cols_0_0
    definitions_["WIDTH_0_0"] = width_0_0
    definitions_["TEAM_0_0"] = team_0_0
    definitions_["PARTS_0_0"] = parts_0_0
    definitions_["TEAMS_0_0"] = teams_0_0
    definitions_["CHUNKS_0_0"] = chunks_0_0
    definitions_["INDEX_0_0"] = 'int' if rows_0_0 * cols_0_0 < 2 ** 31 else 'long long'
    each_0_0, threads_0_0 = chunks_0_0 * width_0_0, team_0_0 * teams_0_0
    only_0_0 = rows_0_0 == 1
    definitions_["ONLY_0_0"] = int(only_0_0)
    summed_0_0 = int(not only_0_0 and 2 * each_0_0 <= (64 if parts_0_0 == 1 else 16))
    definitions_["COLUMNS_0_0"] = summed_0_0
    space_0_0 = (max(0, min(96, 32768 // threads_0_0) - summed_0_0 * 2 * each_0_0), 0)
    space_0_0 = (40, kw.device.shared_per_block // 1 - 4096) if parts_0_0 > 1 else space_0_0
    kept_0_0 = kept(2, cols_0_0, width_0_0, team_0_0, parts_0_0, *space_0_0, teams_0_0)
    outside_0_0, shared_0_0 = kept_0_0 or (0, 0)
    left_0_0 = space_0_0[0] - (2 - outside_0_0) * each_0_0
    definitions_["KEEP_0_0"] = int(bool(kept_0_0))
    definitions_["OUTSIDE_0_0"] = outside_0_0
    ahead_0_0 = int(True and outside_0_0 == 0 and groups_0_0 * teams_0_0 < rows_0_0 and 2 * each_0_0 <= left_0_0)
    definitions_["AHEAD_0_0"] = ahead_0_0
    left_0_0 -= ahead_0_0 * 2 * each_0_0
    hold_0_0, chunk_0_0 = True and parts_0_0 == 1 and 1 * each_0_0 <= left_0_0, 4 * threads_0_0 * width_0_0
    held_0_0_1 = chunks_0_0 if hold_0_0 else 0
    shared_0_0 += 0 if hold_0_0 else held_0_0_1 * chunk_0_0
    definitions_["HELD_0_0_1"] = held_0_0_1
    partial_0_26 = kw.scratch("partial_0_26", 4 * (cols_0_0 * groups_0_0 * teams_0_0 if not (only_0_0 or owned_0_0) else 1))
    partial_0_27 = kw.scratch("partial_0_27", 4 * (cols_0_0 * groups_0_0 * teams_0_0 if not (only_0_0 or owned_0_0) else 1))
    met_0_0 = kw.workspace("met_0_0", 8 * (4 * parts_0_0 + 1) * (rows_0_0 if parts_0_0 > 1 else 1))
    definitions_["NUMBER_0_4"] = literal(float((x.size(1) * x.size(2) * x.size(3))))
    definitions_["NUMBER_0_10"] = literal(float(eps))
    blocks_rows_0_0, threads_rows_0_0 = (groups_0_0 * parts_0_0 if not owned_0_0 else 0), team_0_0 * teams_0_0
    definitions_["BLOCKS_rows_0_0"] = blocks_rows_0_0
    definitions_["THREADS_rows_0_0"] = threads_rows_0_0
    blocks_ = blocks_rows_0_0
    threads_ = max([threads_rows_0_0])
    definitions_["THREADS_0"] = threads_
    definitions_["LEAST_0"] = min(1 if parts_0_0 > 1 else max(1, 512 // threads_0_0), 2048 // threads_)
    if blocks_:
        steps_.append(kw.launch("launch0", blocks_, threads_, x, grad_out, weight, partial_0_26, partial_0_27, met_0_0, grad_x, grad_weight, grad_bias, cooperative=parts_0_0 > 1, shared=max(0, shared_0_0)))
    columns_0_0 = x.size(1) * x.size(2) * x.size(3)
    definitions_["JOINED_0_0"] = columns_0_0
    sharing_0_0 = min(8, power(groups_0_0 * teams_0_0))
    definitions_["SHARING_0_0"] = sharing_0_0
    definitions_["PARTIALS_0_0"] = groups_0_0 * teams_0_0
    blocks_columns_0_0, threads_columns_0_0 = (ceil(columns_0_0, 256 // sharing_0_0) if not (only_0_0 or owned_0_0) else 0), 256
    definitions_["BLOCKS_columns_0_0"] = blocks_columns_0_0
    definitions_["THREADS_columns_0_0"] = threads_columns_0_0
    rows_0_0_owned, cols_0_0_owned = x.size(0), x.size(1) * x.size(2) * x.size(3)
    owned_0_0 = rows_0_0_owned > 1 and cols_0_0_owned >= 262144
    width_0_0_owned = widest(4, cols_0_0_owned)
    parts_0_0_owned = ceil(cols_0_0_owned, 1024 * width_0_0_owned)
    definitions_["ROWS_0_0_owned"] = rows_0_0_owned
    definitions_["COLS_0_0_owned"] = cols_0_0_owned
    definitions_["WIDTH_0_0_owned"] = width_0_0_owned
    definitions_["PARTS_0_0_owned"] = parts_0_0_owned
    definitions_["INDEX_0_0_owned"] = 'int' if rows_0_0_owned * cols_0_0_owned < 2 ** 31 else 'long long'
    shares_0_0_owned = kw.scratch("shares_0_0_owned", 16 * (rows_0_0_owned * parts_0_0_owned if owned_0_0 else 1))
    definitions_["NUMBER_0_4"] = literal(float((x.size(1) * x.size(2) * x.size(3))))
    definitions_["NUMBER_0_10"] = literal(float(eps))
    blocks_shares_0_0_owned, threads_shares_0_0_owned = (parts_0_0_owned if owned_0_0 else 0), 256
    definitions_["BLOCKS_shares_0_0_owned"] = blocks_shares_0_0_owned
    definitions_["THREADS_shares_0_0_owned"] = threads_shares_0_0_owned
    blocks_ = blocks_columns_0_0 + blocks_shares_0_0_owned
    threads_ = max([threads_columns_0_0, threads_shares_0_0_owned])
    definitions_["THREADS_1"] = threads_
    definitions_["LEAST_1"] = min(1, 2048 // threads_)
    if blocks_:
        steps_.append(kw.launch("launch1", blocks_, threads_, partial_0_26, partial_0_27, grad_weight, grad_bias, weight, x, grad_out, shares_0_0_owned, dependent=bool(steps_) and not (steps_[-1].cooperative or False)))
    definitions_["NUMBER_0_4"] = literal(float((x.size(1) * x.size(2) * x.size(3))))
    definitions_["NUMBER_0_10"] = literal(float(eps))
    result_0_5 = kw.scratch("result_0_5", 4 * rows_0_0_owned)
    result_0_12 = kw.scratch("result_0_12", 4 * rows_0_0_owned)
    result_0_16 = kw.scratch("result_0_16", 4 * rows_0_0_owned)
    result_0_19 = kw.scratch("result_0_19", 4 * rows_0_0_owned)
    result_0_23 = kw.scratch("result_0_23", 4 * rows_0_0_owned)
    blocks_results_0_0_owned, threads_results_0_0_owned = (rows_0_0_owned if owned_0_0 else 0), 256
    definitions_["BLOCKS_results_0_0_owned"] = blocks_results_0_0_owned
    definitions_["THREADS_results_0_0_owned"] = threads_results_0_0_owned
    blocks_ = blocks_results_0_0_owned
    threads_ = max([threads_results_0_0_owned])
    definitions_["THREADS_2"] = threads_
    definitions_["LEAST_2"] = min(1, 2048 // threads_)
    if blocks_:
        steps_.append(kw.launch("launch2", blocks_, threads_, shares_0_0_owned, result_0_5, result_0_12, result_0_16, result_0_19, result_0_23, dependent=bool(steps_) and not (steps_[-1].cooperative or False)))
    definitions_["NUMBER_0_4"] = literal(float((x.size(1) * x.size(2) * x.size(3))))
    definitions_["NUMBER_0_10"] = literal(float(eps))
    blocks_owners_0_0_owned, threads_owners_0_0_owned = (ceil(cols_0_0_owned, 256 * width_0_0_owned) if owned_0_0 else 0), 256
    definitions_["BLOCKS_owners_0_0_owned"] = blocks_owners_0_0_owned
    definitions_["THREADS_owners_0_0_owned"] = threads_owners_0_0_owned
    blocks_ = blocks_owners_0_0_owned
    threads_ = max([threads_owners_0_0_owned])
    definitions_["THREADS_3"] = threads_
    definitions_["LEAST_3"] = min(1, 2048 // threads_)
    if blocks_:
        steps_.append(kw.launch("launch3", blocks_, threads_, weight, result_0_5, result_0_12, result_0_16, result_0_19, result_0_23, grad_out, x, grad_x, grad_weight, grad_bias, dependent=bool(steps_) and not (steps_[-1].cooperative or False)))
    return kw.plan(*steps_, definitions=definitions_)
*/
