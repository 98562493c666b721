// cross_entropy:backward@rows=64,classes=10: about 16 elements a thread and at most 256 threads a row, vectors of 4, 2 persistent blocks on each multiprocessor, rows kept in registers where they fit, a long row split over blocks of 1024 threads that meet in a workspace, one block for up to 32768 elements, numbers over up to 2048 rows found anew by every block.
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

__device__ __forceinline__ void rows_0_0(const int block, const int blocks, const long long* __restrict__ p_target, unsigned long long* __restrict__ p_shares_0_0, float* __restrict__ p_total_0_9) {
  constexpr int COLS = COLS_0_0, WIDTH = WIDTH_0_0, TEAM = TEAM_0_0, TEAMS = TEAMS_0_0;
  constexpr int CHUNKS = CHUNKS_0_0, PARTS = PARTS_0_0;
  using Index = INDEX_0_0;
  constexpr Index ROWS = ROWS_0_0;
  constexpr bool WHOLE = TEAM >= 32 || ROWS % (32 / TEAM) == 0;
  __shared__ float slots[2][1][32];
  int turn = 0;
  (void)slots, (void)turn;
  const int team = threadIdx.x / TEAM, lane = threadIdx.x % TEAM, part = block % PARTS;
  const int me = block / PARTS * TEAMS + team, all = blocks / PARTS * TEAMS;
  (void)WHOLE, (void)lane, (void)part;
  const long long v7 = NUMBER_0_7;
  float t9 = Sum::nothing();
  for (Index row = me; row < ROWS; row += all) {
    const long long v1 = p_target[row];
    const bool v8 = v1 != v7;
    t9 = Sum::join(t9, static_cast<float>(v8));
  }
  __shared__ float ends[2][1][32];
  if (!WHOLE) __syncthreads();
  t9 = lane == 0 && part == 0 ? t9 : Sum::nothing();
  t9 = over_team<Sum, TEAM * TEAMS>(t9, ends[0][0]);
  if (blocks > 1) {
    if (block > 0) {
      if (threadIdx.x == 0) {
        tell(p_shares_0_0 + 0 * blocks + block, t9);
      }
      return;
    }
    t9 = threadIdx.x == 0 ? t9 : Sum::nothing();
    for (int i = 1 + threadIdx.x; i < blocks; i += TEAM * TEAMS) {
      t9 = Sum::join(t9, heard<float>(p_shares_0_0 + 0 * blocks + i));
      p_shares_0_0[0 * blocks + i] = 0;
    }
    t9 = over_team<Sum, TEAM * TEAMS>(t9, ends[1][0]);
  }
  if (threadIdx.x == 0) {
    p_total_0_9[0] = t9;
  }
}

__device__ __forceinline__ void rows_0_1(const int block, const int blocks, const long long* __restrict__ p_target, const float* __restrict__ p_logits, const float* __restrict__ p_grad_out, const float* __restrict__ p_total_0_9, unsigned long long* __restrict__ p_met_0_1, float* __restrict__ p_grad_logits) {
#if KEEP_0_1
  constexpr int COLS = COLS_0_1, WIDTH = WIDTH_0_1, TEAM = TEAM_0_1, TEAMS = TEAMS_0_1;
  constexpr int CHUNKS = CHUNKS_0_1, PARTS = PARTS_0_1;
  using Index = INDEX_0_1;
  constexpr Index ROWS = ROWS_0_1;
  constexpr bool WHOLE = TEAM >= 32 || ROWS % (32 / TEAM) == 0;
  __shared__ float slots[2][1][32];
  int turn = 0;
  (void)slots, (void)turn;
  const int team = threadIdx.x / TEAM, lane = threadIdx.x % TEAM, part = block % PARTS;
  const int me = block / PARTS * TEAMS + team, all = blocks / PARTS * TEAMS;
  (void)WHOLE, (void)lane, (void)part;
  extern __shared__ __align__(16) float kept[];
  (void)kept;
  #if OUTSIDE_0_1 > 0
  const Shelf<WIDTH, TEAM * TEAMS> k0{kept + ((0 * CHUNKS) * TEAM * TEAMS + threadIdx.x) * WIDTH};
  #else
  alignas(16) float k0[CHUNKS][WIDTH];
  #endif
  #if OUTSIDE_0_1 > 1
  const Shelf<WIDTH, TEAM * TEAMS> k5{kept + ((1 * CHUNKS) * TEAM * TEAMS + threadIdx.x) * WIDTH};
  #else
  alignas(16) float k5[CHUNKS][WIDTH];
  #endif
  alignas(16) float n0[AHEAD_0_1 ? CHUNKS : 1][WIDTH];
  long long r1;
  const auto fetch = [&](const Index row) {
    if (row >= ROWS) return;
    r1 = p_target[row];
    #pragma unroll CHUNKS
    for (int k = 0; k < CHUNKS; ++k) {
      const int c = ((k * PARTS + part) * TEAM + lane) * WIDTH;
      if (c < COLS) {
        if (AHEAD_0_1) load(n0[AHEAD_0_1 ? k : 0], p_logits + row * COLS + c);
        else load(k0[k], p_logits + row * COLS + c);
      }
    }
  };
  fetch(me);
  if (PARTS == 1) {
  }
  const float v2 = p_grad_out[0];
  float t9 = Sum::nothing();
  if (ROWS <= 2048) {
    const long long v7 = NUMBER_0_7;
  #pragma unroll 4
    for (Index row = threadIdx.x; row < ROWS; row += TEAM * TEAMS) {
      const long long v1 = p_target[row];
      const bool v8 = v1 != v7;
      t9 = Sum::join(t9, static_cast<float>(v8));
    }
    t9 = over_team<Sum, TEAM * TEAMS>(t9, slots[1][0]);
  } else {
    t9 = p_total_0_9[0];
  }
  const long long v7 = NUMBER_0_7;
  const long long v9 = t9;
  const float v10 = static_cast<float>(v9);
  const float v11 = v2 / v10;
  const long long v12 = NUMBER_0_12;
  const float v14 = NUMBER_0_14;
  const float v17 = NUMBER_0_17;
  for (Index row = me; row < ROWS; row += all) {
    if (AHEAD_0_1) {
      #pragma unroll CHUNKS
      for (int k = 0; k < CHUNKS; ++k) {
        const int c = ((k * PARTS + part) * TEAM + lane) * WIDTH;
        if (c < COLS) {
          copy(k0[k], n0[AHEAD_0_1 ? k : 0]);
        }
      }
    }
    const long long v1 = r1;
    const bool v8 = v1 != v7;
    const long long v13 = v8 ? v1 : v12;
    const float v19 = v8 ? v11 : v14;
    const float v22 = v17 * v19;
    if (AHEAD_0_1 && all < ROWS) fetch(row + all);
    float a3;
    a3 = Most::nothing();
    #pragma unroll CHUNKS
    for (int k = 0; k < CHUNKS; ++k) {
      const int c = ((k * PARTS + part) * TEAM + lane) * WIDTH;
      if (c < COLS) {
        alignas(16) float h0[WIDTH];
        load(h0, k0[k]);
        #pragma unroll
        for (int j = 0; j < WIDTH; ++j) {
          a3 = Most::join(a3, static_cast<float>(h0[j]));
        }
      }
    }
    a3 = over_team<Most, TEAM, WHOLE>(a3, slots[turn][0]);
    turn ^= 1;
    if (PARTS > 1) {
      unsigned long long* const words = p_met_0_1 + row * (2 * PARTS + 1);
      unsigned long long* const words_a3 = words + 0 * PARTS;
      if (threadIdx.x == 0) {
        tell(words_a3 + part, a3);
      }
      a3 = Most::nothing();
      for (int i = threadIdx.x; i < PARTS; i += TEAM)
        a3 = Most::join(a3, heard<float>(words_a3 + i));
      a3 = over_team<Most, TEAM>(a3, slots[turn][0]);
      turn ^= 1;
    }
    const float v3 = static_cast<float>(a3);
    float a6;
    a6 = Sum::nothing();
    #pragma unroll CHUNKS
    for (int k = 0; k < CHUNKS; ++k) {
      const int c = ((k * PARTS + part) * TEAM + lane) * WIDTH;
      if (c < COLS) {
        alignas(16) float h0[WIDTH];
        load(h0, k0[k]);
        #pragma unroll
        for (int j = 0; j < WIDTH; ++j) {
          const float v4 = h0[j] - v3;
          const float v5 = expf(v4);
          k5[k][j] = v5;
          a6 = Sum::join(a6, static_cast<float>(v5));
        }
      }
    }
    a6 = over_team<Sum, TEAM, WHOLE>(a6, slots[turn][0]);
    turn ^= 1;
    if (PARTS > 1) {
      unsigned long long* const words = p_met_0_1 + row * (2 * PARTS + 1);
      unsigned long long* const words_a6 = words + 1 * PARTS;
      if (threadIdx.x == 0) {
        tell(words_a6 + part, a6);
      }
      a6 = Sum::nothing();
      for (int i = threadIdx.x; i < PARTS; i += TEAM)
        a6 = Sum::join(a6, heard<float>(words_a6 + i));
      a6 = over_team<Sum, TEAM>(a6, slots[turn][0]);
      turn ^= 1;
    }
    const float v6 = static_cast<float>(a6);
    unsigned long long came = 0;
    if (PARTS > 1 && threadIdx.x == 0)
      came = atomicAdd(p_met_0_1 + (row + 1) * (2 * PARTS + 1) - 1, 1ull);
    #pragma unroll CHUNKS
    for (int k = 0; k < CHUNKS; ++k) {
      const int c = ((k * PARTS + part) * TEAM + lane) * WIDTH;
      if (c < COLS) {
        alignas(16) float s_grad_logits[WIDTH];
        alignas(16) float h5[WIDTH];
        load(h5, k5[k]);
        #pragma unroll
        for (int j = 0; j < WIDTH; ++j) {
          const bool v16 = static_cast<long long>(c + j) == v13;
          const float v18 = v16 ? v17 : v14;
          const float v20 = v18 * v19;
          const float v21 = h5[j] / v6;
          const float v23 = v21 * v22;
          const float v24 = v20 - v23;
          s_grad_logits[j] = v24;
        }
        store(p_grad_logits + row * COLS + c, s_grad_logits);
      }
    }
    if (PARTS > 1 && threadIdx.x < 32) {
      if (__shfl_sync(0xffffffffu, came, 0) == PARTS - 1)
        for (int i = threadIdx.x; i <= 2 * PARTS; i += 32)
          p_met_0_1[row * (2 * PARTS + 1) + i] = 0;
    }
    if (!AHEAD_0_1 && all < ROWS) fetch(row + all);
  }
#else
  constexpr int COLS = COLS_0_1, WIDTH = WIDTH_0_1, TEAM = TEAM_0_1, TEAMS = TEAMS_0_1;
  constexpr int CHUNKS = CHUNKS_0_1, PARTS = PARTS_0_1;
  using Index = INDEX_0_1;
  constexpr Index ROWS = ROWS_0_1;
  constexpr bool WHOLE = TEAM >= 32 || ROWS % (32 / TEAM) == 0;
  __shared__ float slots[2][1][32];
  int turn = 0;
  (void)slots, (void)turn;
  const int team = threadIdx.x / TEAM, lane = threadIdx.x % TEAM, part = block % PARTS;
  const int me = block / PARTS * TEAMS + team, all = blocks / PARTS * TEAMS;
  (void)WHOLE, (void)lane, (void)part;
  const float v2 = p_grad_out[0];
  float t9 = Sum::nothing();
  if (ROWS <= 2048) {
    const long long v7 = NUMBER_0_7;
  #pragma unroll 4
    for (Index row = threadIdx.x; row < ROWS; row += TEAM * TEAMS) {
      const long long v1 = p_target[row];
      const bool v8 = v1 != v7;
      t9 = Sum::join(t9, static_cast<float>(v8));
    }
    t9 = over_team<Sum, TEAM * TEAMS>(t9, slots[1][0]);
  } else {
    t9 = p_total_0_9[0];
  }
  const long long v7 = NUMBER_0_7;
  const long long v9 = t9;
  const float v10 = static_cast<float>(v9);
  const float v11 = v2 / v10;
  const long long v12 = NUMBER_0_12;
  const float v14 = NUMBER_0_14;
  const float v17 = NUMBER_0_17;
  for (Index row = me; row < ROWS; row += all) {
    const long long v1 = p_target[row];
    const bool v8 = v1 != v7;
    const long long v13 = v8 ? v1 : v12;
    const float v19 = v8 ? v11 : v14;
    const float v22 = v17 * v19;
    float a3;
    a3 = Most::nothing();
    #pragma unroll 4
    for (int k = 0; k < CHUNKS; ++k) {
      const int c = ((k * PARTS + part) * TEAM + lane) * WIDTH;
      if (c < COLS) {
        alignas(16) float l0[WIDTH];
        load(l0, p_logits + row * COLS + c);
        #pragma unroll
        for (int j = 0; j < WIDTH; ++j) {
          a3 = Most::join(a3, static_cast<float>(l0[j]));
        }
      }
    }
    a3 = over_team<Most, TEAM, WHOLE>(a3, slots[turn][0]);
    turn ^= 1;
    if (PARTS > 1) {
      unsigned long long* const words = p_met_0_1 + row * (2 * PARTS + 1);
      unsigned long long* const words_a3 = words + 0 * PARTS;
      if (threadIdx.x == 0) {
        tell(words_a3 + part, a3);
      }
      a3 = Most::nothing();
      for (int i = threadIdx.x; i < PARTS; i += TEAM)
        a3 = Most::join(a3, heard<float>(words_a3 + i));
      a3 = over_team<Most, TEAM>(a3, slots[turn][0]);
      turn ^= 1;
    }
    const float v3 = static_cast<float>(a3);
    float a6;
    a6 = Sum::nothing();
    #pragma unroll 4
    for (int k = 0; k < CHUNKS; ++k) {
      const int c = ((k * PARTS + part) * TEAM + lane) * WIDTH;
      if (c < COLS) {
        alignas(16) float l0[WIDTH];
        load(l0, p_logits + row * COLS + c);
        #pragma unroll
        for (int j = 0; j < WIDTH; ++j) {
          const float v4 = l0[j] - v3;
          const float v5 = expf(v4);
          a6 = Sum::join(a6, static_cast<float>(v5));
        }
      }
    }
    a6 = over_team<Sum, TEAM, WHOLE>(a6, slots[turn][0]);
    turn ^= 1;
    if (PARTS > 1) {
      unsigned long long* const words = p_met_0_1 + row * (2 * PARTS + 1);
      unsigned long long* const words_a6 = words + 1 * PARTS;
      if (threadIdx.x == 0) {
        tell(words_a6 + part, a6);
      }
      a6 = Sum::nothing();
      for (int i = threadIdx.x; i < PARTS; i += TEAM)
        a6 = Sum::join(a6, heard<float>(words_a6 + i));
      a6 = over_team<Sum, TEAM>(a6, slots[turn][0]);
      turn ^= 1;
    }
    const float v6 = static_cast<float>(a6);
    unsigned long long came = 0;
    if (PARTS > 1 && threadIdx.x == 0)
      came = atomicAdd(p_met_0_1 + (row + 1) * (2 * PARTS + 1) - 1, 1ull);
    #pragma unroll 4
    for (int k = 0; k < CHUNKS; ++k) {
      const int c = ((k * PARTS + part) * TEAM + lane) * WIDTH;
      if (c < COLS) {
        alignas(16) float s_grad_logits[WIDTH];
        alignas(16) float l0[WIDTH];
        load(l0, p_logits + row * COLS + c);
        #pragma unroll
        for (int j = 0; j < WIDTH; ++j) {
          const bool v16 = static_cast<long long>(c + j) == v13;
          const float v18 = v16 ? v17 : v14;
          const float v20 = v18 * v19;
          const float v4 = l0[j] - v3;
          const float v5 = expf(v4);
          const float v21 = v5 / v6;
          const float v23 = v21 * v22;
          const float v24 = v20 - v23;
          s_grad_logits[j] = v24;
        }
        store(p_grad_logits + row * COLS + c, s_grad_logits);
      }
    }
    if (PARTS > 1 && threadIdx.x < 32) {
      if (__shfl_sync(0xffffffffu, came, 0) == PARTS - 1)
        for (int i = threadIdx.x; i <= 2 * PARTS; i += 32)
          p_met_0_1[row * (2 * PARTS + 1) + i] = 0;
    }
  }
#endif
}

extern "C" __global__ void __launch_bounds__(THREADS_0, LEAST_0) launch0(
    const long long* __restrict__ p_target,
    unsigned long long* __restrict__ p_shares_0_0,
    float* __restrict__ p_total_0_9) {
  let_next_launch_start();
  if (blockIdx.x < 0 + BLOCKS_rows_0_0) {
    if (threadIdx.x < THREADS_rows_0_0)
      rows_0_0(blockIdx.x - (0), BLOCKS_rows_0_0, p_target, p_shares_0_0, p_total_0_9);
  }
}

extern "C" __global__ void __launch_bounds__(THREADS_1, LEAST_1) launch1(
    const long long* __restrict__ p_target,
    const float* __restrict__ p_logits,
    const float* __restrict__ p_grad_out,
    const float* __restrict__ p_total_0_9,
    unsigned long long* __restrict__ p_met_0_1,
    float* __restrict__ p_grad_logits) {
  wait_for_launch_before();
  if (blockIdx.x < 0 + BLOCKS_rows_0_1) {
    if (threadIdx.x < THREADS_rows_0_1)
      rows_0_1(blockIdx.x - (0), BLOCKS_rows_0_1, p_target, p_logits, p_grad_out, p_total_0_9, p_met_0_1, p_grad_logits);
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


def plan(logits, target, grad_out, grad_logits):
    steps_, definitions_ = [], {}
    rows_0_0, cols_0_0 = logits.size(0), logits.size(1)
    width_0_0 = widest(4, cols_0_0)
    team_0_0 = min(256, max(8, power(ceil(cols_0_0, 16))))
    parts_0_0 = 1
    solo_0_0 = rows_0_0 * cols_0_0 <= 32768
    teams_0_0 = max(1, 128 // team_0_0) if team_0_0 <= 32 else 1
    groups_0_0 = ceil(rows_0_0, teams_0_0)
    groups_0_0 = min(groups_0_0, kw.device.multiprocessors * max(1, 2 * 256 // (team_0_0 * teams_0_0)))
    if solo_0_0:
        team_0_0, groups_0_0 = min(team_0_0, 32), 1
        teams_0_0 = min(1024 // team_0_0, max(32 // team_0_0, power(rows_0_0)))
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
    shares_0_0 = kw.workspace("shares_0_0", 8 * 1 * groups_0_0 * parts_0_0)
    total_0_9 = kw.scratch("total_0_9", 4)
    definitions_["NUMBER_0_7"] = literal(int(-100))
    blocks_rows_0_0, threads_rows_0_0 = (groups_0_0 * parts_0_0 if rows_0_0 > 2048 else 0), team_0_0 * teams_0_0
    definitions_["BLOCKS_rows_0_0"] = blocks_rows_0_0
    definitions_["THREADS_rows_0_0"] = threads_rows_0_0
    blocks_ = blocks_rows_0_0
    threads_ = max([threads_rows_0_0])
    definitions_["THREADS_0"] = threads_
    definitions_["LEAST_0"] = min(max(1, 0 // threads_0_0), 2048 // threads_)
    if blocks_:
        steps_.append(kw.launch("launch0", blocks_, threads_, target, shares_0_0, total_0_9))
    rows_0_1, cols_0_1 = logits.size(0), logits.size(1)
    width_0_1 = widest(4, cols_0_1)
    team_0_1 = min(256, max(8, power(ceil(cols_0_1, 16))))
    parts_0_1 = 1
    solo_0_1 = False
    if cols_0_1 >= 16384 and (2 * rows_0_1 <= kw.device.multiprocessors or cols_0_1 >= 32768) and not solo_0_1:
        team_0_1, room_0_1 = 1024, kw.device.multiprocessors * 1
        most_0_1 = max(1, min(rows_0_1, kw.device.multiprocessors // 2))
        together_0_1 = next((n for n in range(most_0_1, 0, -1) if kept(2, cols_0_1, width_0_1, team_0_1, room_0_1 // n, *(40, kw.device.shared_per_block // 1 - 4096))), most_0_1)
        parts_0_1 = min(room_0_1 // together_0_1, ceil(cols_0_1, team_0_1 * width_0_1))
    teams_0_1 = max(1, 128 // team_0_1) if team_0_1 <= 32 else 1
    groups_0_1 = ceil(rows_0_1, teams_0_1)
    groups_0_1 = min(groups_0_1, kw.device.multiprocessors * max(1, 2 * 256 // (team_0_1 * teams_0_1)))
    groups_0_1 = together_0_1 if parts_0_1 > 1 else groups_0_1
    chunks_0_1 = ceil(cols_0_1, team_0_1 * width_0_1 * parts_0_1)
    definitions_["ROWS_0_1"] = rows_0_1
    definitions_["COLS_0_1"] = cols_0_1
    definitions_["WIDTH_0_1"] = width_0_1
    definitions_["TEAM_0_1"] = team_0_1
    definitions_["PARTS_0_1"] = parts_0_1
    definitions_["TEAMS_0_1"] = teams_0_1
    definitions_["CHUNKS_0_1"] = chunks_0_1
    definitions_["INDEX_0_1"] = 'int' if rows_0_1 * cols_0_1 < 2 ** 31 else 'long long'
    each_0_1, threads_0_1 = chunks_0_1 * width_0_1, team_0_1 * teams_0_1
    space_0_1 = (max(0, min(64, 32768 // threads_0_1)), 0)
    space_0_1 = (40, kw.device.shared_per_block // 1 - 4096) if parts_0_1 > 1 else space_0_1
    kept_0_1 = kept(2, cols_0_1, width_0_1, team_0_1, parts_0_1, *space_0_1, teams_0_1)
    outside_0_1, shared_0_1 = kept_0_1 or (0, 0)
    left_0_1 = space_0_1[0] - (2 - outside_0_1) * each_0_1
    definitions_["KEEP_0_1"] = int(bool(kept_0_1))
    definitions_["OUTSIDE_0_1"] = outside_0_1
    ahead_0_1 = int(False and outside_0_1 == 0 and groups_0_1 * teams_0_1 < rows_0_1 and 1 * each_0_1 <= left_0_1)
    definitions_["AHEAD_0_1"] = ahead_0_1
    left_0_1 -= ahead_0_1 * 1 * each_0_1
    hold_0_1, chunk_0_1 = False and parts_0_1 == 1 and 0 * each_0_1 <= left_0_1, 4 * threads_0_1 * width_0_1
    met_0_1 = kw.workspace("met_0_1", 8 * (2 * parts_0_1 + 1) * (rows_0_1 if parts_0_1 > 1 else 1))
    definitions_["NUMBER_0_7"] = literal(int(-100))
    definitions_["NUMBER_0_12"] = literal(int(0))
    definitions_["NUMBER_0_14"] = literal(float(0))
    definitions_["NUMBER_0_17"] = literal(float(-1.0))
    blocks_rows_0_1, threads_rows_0_1 = (groups_0_1 * parts_0_1), team_0_1 * teams_0_1
    definitions_["BLOCKS_rows_0_1"] = blocks_rows_0_1
    definitions_["THREADS_rows_0_1"] = threads_rows_0_1
    blocks_ = blocks_rows_0_1
    threads_ = max([threads_rows_0_1])
    definitions_["THREADS_1"] = threads_
    definitions_["LEAST_1"] = min(1 if parts_0_1 > 1 else max(1, 0 // threads_0_1), 2048 // threads_)
    if blocks_:
        steps_.append(kw.launch("launch1", blocks_, threads_, target, logits, grad_out, total_0_9, met_0_1, grad_logits, cooperative=parts_0_1 > 1, shared=max(0, shared_0_1), dependent=bool(steps_) and not (steps_[-1].cooperative or parts_0_1 > 1)))
    return kw.plan(*steps_, definitions=definitions_)
*/
