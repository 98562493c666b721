// rmsnorm@rows=16384,cols=4096: about 8 elements a thread and at most 512 threads a row, vectors of 4, rows kept in registers where they fit, a long row split over blocks of 1024 threads that meet in a workspace.
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

__device__ __forceinline__ void rows_0_0(const int block, const int blocks, const float* __restrict__ p_x, const float* __restrict__ p_weight, unsigned long long* __restrict__ p_met_0_0, float* __restrict__ p_out) {
#if KEEP_0_0
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
  extern __shared__ __align__(16) float kept[];
  (void)kept;
  #if OUTSIDE_0_0 > 0
  const Shelf<WIDTH, TEAM * TEAMS> k0{kept + ((0 * CHUNKS) * TEAM * TEAMS + threadIdx.x) * WIDTH};
  #else
  alignas(16) float k0[CHUNKS][WIDTH];
  #endif
  #if PARTS_0_0 > 1
  const Shelf<WIDTH, TEAM * TEAMS> k1{kept + ((OUTSIDE_0_0 * CHUNKS) * TEAM * TEAMS + threadIdx.x) * WIDTH};
  #else
  alignas(16) float k1[HELD_0_0_1 ? HELD_0_0_1 : 1][WIDTH];
  #endif
  alignas(16) float n0[AHEAD_0_0 ? CHUNKS : 1][WIDTH];
  const auto fetch = [&](const Index row) {
    if (row >= ROWS) return;
    #pragma unroll CHUNKS
    for (int k = 0; k < CHUNKS; ++k) {
      const int c = ((k * PARTS + part) * TEAM + lane) * WIDTH;
      if (c < COLS) {
        if (AHEAD_0_0) load(n0[AHEAD_0_0 ? k : 0], p_x + row * COLS + c);
        else load(k0[k], p_x + row * COLS + c);
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
  const float v6 = NUMBER_0_6;
  for (Index row = me; row < ROWS; row += all) {
    if (AHEAD_0_0) {
      #pragma unroll CHUNKS
      for (int k = 0; k < CHUNKS; ++k) {
        const int c = ((k * PARTS + part) * TEAM + lane) * WIDTH;
        if (c < COLS) {
          copy(k0[k], n0[AHEAD_0_0 ? k : 0]);
        }
      }
    }
    if (AHEAD_0_0 && all < ROWS) fetch(row + all);
    float a3;
    a3 = Sum::nothing();
    #pragma unroll CHUNKS
    for (int k = 0; k < CHUNKS; ++k) {
      const int c = ((k * PARTS + part) * TEAM + lane) * WIDTH;
      if (c < COLS) {
        alignas(16) float h0[WIDTH];
        load(h0, k0[k]);
        #pragma unroll
        for (int j = 0; j < WIDTH; ++j) {
          const float v2 = h0[j] * h0[j];
          a3 = Sum::join(a3, static_cast<float>(v2));
        }
      }
    }
    a3 = over_team<Sum, TEAM, WHOLE>(a3, slots[turn][0]);
    turn ^= 1;
    if (PARTS > 1) {
      unsigned long long* const words = p_met_0_0 + row * (1 * PARTS + 1);
      unsigned long long* const words_a3 = words + 0 * PARTS;
      if (threadIdx.x == 0) {
        tell(words_a3 + part, a3);
      }
      if (row == me) {
        #pragma unroll CHUNKS
        for (int k = 0; k < CHUNKS; ++k) {
          const int c = ((k * PARTS + part) * TEAM + lane) * WIDTH;
          if (c < COLS) {
            if (k < HELD_0_0_1) load(k1[k < HELD_0_0_1 ? k : 0], p_weight + c);
          }
        }
      }
      a3 = Sum::nothing();
      for (int i = threadIdx.x; i < PARTS; i += TEAM)
        a3 = Sum::join(a3, heard<float>(words_a3 + i));
      a3 = over_team<Sum, TEAM>(a3, slots[turn][0]);
      turn ^= 1;
    }
    const float v3 = static_cast<float>(a3);
    const float v5 = v3 / v4;
    const float v7 = v5 + v6;
    const float v8 = rsqrtf(v7);
    unsigned long long came = 0;
    if (PARTS > 1 && threadIdx.x == 0)
      came = atomicAdd(p_met_0_0 + (row + 1) * (1 * PARTS + 1) - 1, 1ull);
    #pragma unroll CHUNKS
    for (int k = 0; k < CHUNKS; ++k) {
      const int c = ((k * PARTS + part) * TEAM + lane) * WIDTH;
      if (c < COLS) {
        alignas(16) float s_out[WIDTH];
        alignas(16) float h0[WIDTH];
        load(h0, k0[k]);
        alignas(16) float l1[WIDTH];
        load(l1, k < HELD_0_0_1 ? k1[k < HELD_0_0_1 ? k : 0] : p_weight + c);
        #pragma unroll
        for (int j = 0; j < WIDTH; ++j) {
          const float v9 = h0[j] * v8;
          const float v10 = v9 * l1[j];
          s_out[j] = v10;
        }
        store(p_out + row * COLS + c, s_out);
      }
    }
    if (PARTS > 1 && threadIdx.x < 32) {
      if (__shfl_sync(0xffffffffu, came, 0) == PARTS - 1)
        for (int i = threadIdx.x; i <= 1 * PARTS; i += 32)
          p_met_0_0[row * (1 * PARTS + 1) + i] = 0;
    }
    if (!AHEAD_0_0 && all < ROWS) fetch(row + all);
  }
#else
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
  const float v4 = NUMBER_0_4;
  const float v6 = NUMBER_0_6;
  for (Index row = me; row < ROWS; row += all) {
    float a3;
    a3 = Sum::nothing();
    #pragma unroll 4
    for (int k = 0; k < CHUNKS; ++k) {
      const int c = ((k * PARTS + part) * TEAM + lane) * WIDTH;
      if (c < COLS) {
        alignas(16) float l0[WIDTH];
        load(l0, p_x + row * COLS + c);
        #pragma unroll
        for (int j = 0; j < WIDTH; ++j) {
          const float v2 = l0[j] * l0[j];
          a3 = Sum::join(a3, static_cast<float>(v2));
        }
      }
    }
    a3 = over_team<Sum, TEAM, WHOLE>(a3, slots[turn][0]);
    turn ^= 1;
    if (PARTS > 1) {
      unsigned long long* const words = p_met_0_0 + row * (1 * PARTS + 1);
      unsigned long long* const words_a3 = words + 0 * PARTS;
      if (threadIdx.x == 0) {
        tell(words_a3 + part, a3);
      }
      a3 = Sum::nothing();
      for (int i = threadIdx.x; i < PARTS; i += TEAM)
        a3 = Sum::join(a3, heard<float>(words_a3 + i));
      a3 = over_team<Sum, TEAM>(a3, slots[turn][0]);
      turn ^= 1;
    }
    const float v3 = static_cast<float>(a3);
    const float v5 = v3 / v4;
    const float v7 = v5 + v6;
    const float v8 = rsqrtf(v7);
    unsigned long long came = 0;
    if (PARTS > 1 && threadIdx.x == 0)
      came = atomicAdd(p_met_0_0 + (row + 1) * (1 * PARTS + 1) - 1, 1ull);
    #pragma unroll 4
    for (int k = 0; k < CHUNKS; ++k) {
      const int c = ((k * PARTS + part) * TEAM + lane) * WIDTH;
      if (c < COLS) {
        alignas(16) float s_out[WIDTH];
        alignas(16) float l0[WIDTH];
        load(l0, p_x + row * COLS + c);
        alignas(16) float l1[WIDTH];
        load(l1, p_weight + c);
        #pragma unroll
        for (int j = 0; j < WIDTH; ++j) {
          const float v9 = l0[j] * v8;
          const float v10 = v9 * l1[j];
          s_out[j] = v10;
        }
        store(p_out + row * COLS + c, s_out);
      }
    }
    if (PARTS > 1 && threadIdx.x < 32) {
      if (__shfl_sync(0xffffffffu, came, 0) == PARTS - 1)
        for (int i = threadIdx.x; i <= 1 * PARTS; i += 32)
          p_met_0_0[row * (1 * PARTS + 1) + i] = 0;
    }
  }
#endif
}

extern "C" __global__ void __launch_bounds__(THREADS_0, LEAST_0) launch0(
    const float* __restrict__ p_x,
    const float* __restrict__ p_weight,
    unsigned long long* __restrict__ p_met_0_0,
    float* __restrict__ p_out) {
  if (blockIdx.x < 0 + BLOCKS_rows_0_0) {
    if (threadIdx.x < THREADS_rows_0_0)
      rows_0_0(blockIdx.x - (0), BLOCKS_rows_0_0, p_x, p_weight, p_met_0_0, p_out);
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


def plan(x, weight, eps, out):
    steps_, definitions_ = [], {}
    rows_0_0, cols_0_0 = x.size(0), x.size(1)
    width_0_0 = widest(4, cols_0_0)
    team_0_0 = min(512, max(4, power(ceil(cols_0_0, 8))))
    parts_0_0 = 1
    solo_0_0 = False
    if cols_0_0 >= 16384 and (2 * rows_0_0 <= kw.device.multiprocessors or cols_0_0 >= 32768) and not solo_0_0:
        team_0_0, room_0_0 = 1024, kw.device.multiprocessors * 1
        most_0_0 = max(1, min(rows_0_0, kw.device.multiprocessors // 2))
        together_0_0 = next((n for n in range(most_0_0, 0, -1) if kept(1, cols_0_0, width_0_0, team_0_0, room_0_0 // n, *(40, kw.device.shared_per_block // 1 - 4096))), most_0_0)
        parts_0_0 = min(room_0_0 // together_0_0, ceil(cols_0_0, team_0_0 * width_0_0))
    teams_0_0 = max(1, 128 // team_0_0) if team_0_0 <= 32 else 1
    groups_0_0 = ceil(rows_0_0, teams_0_0)
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
    space_0_0 = (max(0, min(64, 32768 // threads_0_0)), 0)
    space_0_0 = (40, kw.device.shared_per_block // 1 - 4096) if parts_0_0 > 1 else space_0_0
    kept_0_0 = kept(1, cols_0_0, width_0_0, team_0_0, parts_0_0, *space_0_0, teams_0_0)
    outside_0_0, shared_0_0 = kept_0_0 or (0, 0)
    left_0_0 = space_0_0[0] - (1 - outside_0_0) * each_0_0
    definitions_["KEEP_0_0"] = int(bool(kept_0_0))
    definitions_["OUTSIDE_0_0"] = outside_0_0
    ahead_0_0 = int(False and outside_0_0 == 0 and groups_0_0 * teams_0_0 < rows_0_0 and 1 * each_0_0 <= left_0_0)
    definitions_["AHEAD_0_0"] = ahead_0_0
    left_0_0 -= ahead_0_0 * 1 * each_0_0
    hold_0_0, chunk_0_0 = False and parts_0_0 == 1 and 1 * each_0_0 <= left_0_0, 4 * threads_0_0 * width_0_0
    held_0_0_1 = chunks_0_0 if hold_0_0 else 0
    shared_0_0 += 0 if hold_0_0 else held_0_0_1 * chunk_0_0
    definitions_["HELD_0_0_1"] = held_0_0_1
    met_0_0 = kw.workspace("met_0_0", 8 * (1 * parts_0_0 + 1) * (rows_0_0 if parts_0_0 > 1 else 1))
    definitions_["NUMBER_0_4"] = literal(float((x.size(1))))
    definitions_["NUMBER_0_6"] = literal(float(eps))
    blocks_rows_0_0, threads_rows_0_0 = (groups_0_0 * parts_0_0), team_0_0 * teams_0_0
    definitions_["BLOCKS_rows_0_0"] = blocks_rows_0_0
    definitions_["THREADS_rows_0_0"] = threads_rows_0_0
    blocks_ = blocks_rows_0_0
    threads_ = max([threads_rows_0_0])
    definitions_["THREADS_0"] = threads_
    definitions_["LEAST_0"] = min(1 if parts_0_0 > 1 else max(1, 0 // threads_0_0), 2048 // threads_)
    if blocks_:
        steps_.append(kw.launch("launch0", blocks_, threads_, x, weight, met_0_0, out, cooperative=parts_0_0 > 1, shared=max(0, shared_0_0)))
    return kw.plan(*steps_, definitions=definitions_)
*/
