// conv_relu_pool:backward@batch=64,channels=1,height=28,width=28,filters=32: about 8 elements a thread and at most 256 threads a row, vectors of 4, rows kept in registers where they fit, a long row split over blocks of 1024 threads that meet in a workspace; then 2 vectors of 4 for each of 256 threads a block; then a scatter into rows of zeros, 128 threads a row; then gradient of the input by direct sums, 4 planes for each thread, weights in shared memory, filters in 4 shares; then gradient of the weight by direct sums, images split until there are 4 blocks for each multiprocessor; then about 8 elements a thread and at most 256 threads a row, vectors of 4, 2 persistent blocks on each multiprocessor.
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

__device__ __forceinline__ void rows_0_0(const int block, const int blocks, const float* __restrict__ p_saved_out, const float* __restrict__ p_grad_out, unsigned long long* __restrict__ p_met_0_0, float* __restrict__ p_buffer0) {
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
  const float v2 = NUMBER_0_2;
  for (Index row = me; row < ROWS; row += all) {
    float a5;
    a5 = Sum::nothing();
    #pragma unroll 4
    for (int k = 0; k < CHUNKS; ++k) {
      const int c = ((k * PARTS + part) * TEAM + lane) * WIDTH;
      if (c < COLS) {
        alignas(16) float l0[WIDTH];
        load(l0, p_saved_out + row * COLS + c);
        alignas(16) float l1[WIDTH];
        load(l1, p_grad_out + row * COLS + c);
        #pragma unroll
        for (int j = 0; j < WIDTH; ++j) {
          const bool v3 = l0[j] > v2;
          const float v4 = v3 ? l1[j] : v2;
          a5 = Sum::join(a5, static_cast<float>(v4));
        }
      }
    }
    a5 = over_team<Sum, TEAM, WHOLE>(a5, slots[turn][0]);
    turn ^= 1;
    if (PARTS > 1) {
      unsigned long long* const words = p_met_0_0 + row * (1 * PARTS + 1);
      unsigned long long* const words_a5 = words + 0 * PARTS;
      if (threadIdx.x == 0) {
        tell(words_a5 + part, a5);
      }
      a5 = Sum::nothing();
      for (int i = threadIdx.x; i < PARTS; i += TEAM)
        a5 = Sum::join(a5, heard<float>(words_a5 + i));
      a5 = over_team<Sum, TEAM>(a5, slots[turn][0]);
      turn ^= 1;
    }
    const float v5 = static_cast<float>(a5);
    if (lane == 0 && part == 0) p_buffer0[row] = v5;
    unsigned long long came = 0;
    if (PARTS > 1 && threadIdx.x == 0)
      came = atomicAdd(p_met_0_0 + (row + 1) * (1 * PARTS + 1) - 1, 1ull);
    if (PARTS > 1 && threadIdx.x < 32) {
      if (__shfl_sync(0xffffffffu, came, 0) == PARTS - 1)
        for (int i = threadIdx.x; i <= 1 * PARTS; i += 32)
          p_met_0_0[row * (1 * PARTS + 1) + i] = 0;
    }
  }
}

__device__ __forceinline__ void flat_1_0(const int block, const int blocks, const float* __restrict__ p_saved_out, const float* __restrict__ p_grad_out, float* __restrict__ p_buffer1) {
  constexpr long long COLS = COLS_1_0, VECTORS = VECTORS_1_0;
  constexpr int WIDTH = WIDTH_1_0;
  const float v2 = NUMBER_1_2;
  #pragma unroll 2
  for (int u = 0; u < 2; ++u) {
    const long long i = (static_cast<long long>(block) * 2 + u) * 256 + threadIdx.x;
    if (i < VECTORS) {
      const long long row = i * WIDTH / COLS, c = i * WIDTH - row * COLS;
      alignas(16) float s_buffer1[WIDTH];
      alignas(16) float l0[WIDTH];
      load(l0, p_saved_out + row * COLS + c);
      alignas(16) float l1[WIDTH];
      load(l1, p_grad_out + row * COLS + c);
      #pragma unroll
      for (int j = 0; j < WIDTH; ++j) {
        const bool v3 = l0[j] > v2;
        const float v4 = v3 ? l1[j] : v2;
        s_buffer1[j] = v4;
      }
      store(p_buffer1 + row * COLS + c, s_buffer1);
    }
  }
}

__device__ __forceinline__ void scatter_2(const int block, const int blocks, float* __restrict__ p_buffer2, const long long* __restrict__ p_saved_places, const float* __restrict__ p_buffer1) {
  constexpr int MANY = MANY_2, WIDE = WIDE_2, THREADS = 128;
  constexpr int EACH = 8 < (MANY + THREADS - 1) / THREADS ? 8 : (MANY + THREADS - 1) / THREADS;
  float* const to = p_buffer2 + static_cast<long long>(block) * WIDE;
  const long long* const places = p_saved_places + static_cast<long long>(block) * MANY;
  const float* const from = p_buffer1 + static_cast<long long>(block) * MANY;
  int place[EACH];
  float value[EACH];
  #pragma unroll
  for (int e = 0; e < EACH; ++e)
    if (const int i = e * THREADS + threadIdx.x; i < MANY) place[e] = places[i], value[e] = from[i];
  for (int c = threadIdx.x; c < WIDE; c += THREADS) to[c] = 0.0f;
  __syncthreads();
  #pragma unroll
  for (int e = 0; e < EACH; ++e)
    if (e * THREADS + threadIdx.x < MANY) to[place[e]] = value[e];
  for (int i = EACH * THREADS + threadIdx.x; i < MANY; i += THREADS) to[places[i]] = from[i];
}

__device__ __forceinline__ void convolution_3(const int block, const int blocks, float* __restrict__ p_grad_x, const float* __restrict__ p_weight, const float* __restrict__ p_buffer2) {
  constexpr int BATCH = BATCH_3, CHANNELS = CHANNELS_3, HEIGHT = HEIGHT_3, WIDTH = WIDTH_3, FILTERS = FILTERS_3, TALL = TALL_3, BROAD = BROAD_3;
  using Index = INDEX_3;
  constexpr int KH = 3, KW = 3, SH = 1, SW = 1, PH = 0, PW = 0, DH = 1, DW = 1;
  constexpr int TAPS = KH * KW, THREADS = 128;
  constexpr int GROUP = GROUP_3, GROUPS = (CHANNELS + GROUP - 1) / GROUP, PLACES = HEIGHT * WIDTH;
  constexpr int SHARES = 4, EACH = THREADS / SHARES;
  __shared__ float room[SHARES][GROUP][EACH];
  const int group = block % GROUPS, share = threadIdx.x / EACH;
  const Index at = static_cast<Index>(block / GROUPS) * EACH + threadIdx.x % EACH;
  const bool mine = at < static_cast<Index>(BATCH) * PLACES;
  const Index b = at / PLACES;
  const int place = at - b * PLACES, y = place / WIDTH, x = place % WIDTH;
  float sum[GROUP] = {};
  constexpr int MOST = 8192 / (GROUP * TAPS), CHUNK = FILTERS < MOST ? FILTERS : MOST;
  __shared__ __align__(16) float weights[CHUNK][TAPS][GROUP];
  for (int first = 0; first < FILTERS; first += CHUNK) {
    if (first) __syncthreads();
    for (int i = threadIdx.x; i < CHUNK * TAPS * GROUP; i += THREADS) {
      const int g = group * GROUP + i / TAPS / CHUNK, d = i / TAPS % CHUNK + first, t = i % TAPS;
      const bool inside = g < CHANNELS && d < FILTERS;
      weights[d - first][t][g - group * GROUP] = inside ? p_weight[(d * CHANNELS + g) * TAPS + t] : 0.0f;
    }
    __syncthreads();
    const float* const planes = p_buffer2 + (b * FILTERS + first) * (TALL * BROAD);
    const int count = FILTERS - first < CHUNK ? FILTERS - first : CHUNK;
  #pragma unroll
    for (int t = 0; t < TAPS; ++t) {
      const int v = y + PH - t / KW * DH, u = x + PW - t % KW * DW;
      if (!mine || v < 0 || u < 0 || v % SH || u % SW || v / SH >= TALL || u / SW >= BROAD) continue;
      const float* const from = planes + v / SH * BROAD + u / SW;
  #pragma unroll 8
      for (int d = share; d < count; d += SHARES) {
        const float value = from[d * (TALL * BROAD)];
  #pragma unroll
        for (int g = 0; g < GROUP; ++g) sum[g] += value * weights[d][t][g];
      }
    }
  }
  if (SHARES > 1) {
    for (int g = 0; g < GROUP; ++g) room[share][g][threadIdx.x % EACH] = sum[g];
    __syncthreads();
  }
  if (!mine || share) return;
  #pragma unroll
  for (int g = 0; g < GROUP; ++g) {
    for (int s = 1; s < SHARES; ++s) sum[g] += room[s][g][threadIdx.x];
    const int channel = group * GROUP + g;
    if (channel < CHANNELS) p_grad_x[(b * CHANNELS + channel) * PLACES + place] = sum[g];
  }
}

__device__ __forceinline__ void convolution_4(const int block, const int blocks, const float* __restrict__ p_buffer2, const float* __restrict__ p_x, float* __restrict__ p_grad_weight, float* __restrict__ p_shares_4, unsigned* __restrict__ p_came_4) {
  constexpr int BATCH = BATCH_4, CHANNELS = CHANNELS_4, HEIGHT = HEIGHT_4, WIDTH = WIDTH_4, FILTERS = FILTERS_4, TALL = TALL_4, BROAD = BROAD_4;
  using Index = INDEX_4;
  constexpr int KH = 3, KW = 3, SH = 1, SW = 1, PH = 0, PW = 0, DH = 1, DW = 1;
  constexpr int TAPS = KH * KW, THREADS = 128;
  constexpr int SPLITS = SPLITS_4, PLACES = TALL * BROAD, IMAGES = (BATCH + SPLITS - 1) / SPLITS;
  constexpr int REACH = (KH - 1) * DH + 1;
  __shared__ float found[THREADS / 32][TAPS];
  const int pair = block / SPLITS, split = block % SPLITS;
  const int filter = pair / CHANNELS, channel = pair % CHANNELS;
  const int begin = split * IMAGES, end = begin + IMAGES < BATCH ? begin + IMAGES : BATCH;
  float sum[TAPS] = {};
  for (int at = threadIdx.x; at < (end - begin) * BROAD; at += THREADS) {
    const Index b = begin + at / BROAD;
    const int across = at % BROAD, left = across * SW - PW;
    const float* const from = p_buffer2 + (b * FILTERS + filter) * PLACES + across;
    const float* const plane = p_x + (b * CHANNELS + channel) * (HEIGHT * WIDTH);
    float seen[REACH][KW];  // the lines of the image under the window, from its top on
    const auto read = [&](const int i, const int y) {
  #pragma unroll
      for (int j = 0; j < KW; ++j) {
        const int x = left + j * DW;
        seen[i][j] = y >= 0 && y < HEIGHT && x >= 0 && x < WIDTH ? plane[y * WIDTH + x] : 0.0f;
      }
    };
  #pragma unroll
    for (int i = 0; i < REACH - SH; ++i) read(i, i - PH);
  #pragma unroll 4
    for (int down = 0; down < TALL; ++down) {
  #pragma unroll
      for (int i = REACH > SH ? REACH - SH : 0; i < REACH; ++i) read(i, down * SH - PH + i);
      const float value = from[down * BROAD];
  #pragma unroll
      for (int t = 0; t < TAPS; ++t) sum[t] += value * seen[t / KW * DH][t % KW];
  #pragma unroll
      for (int i = 0; i + SH < REACH; ++i) copy(seen[i], seen[i + SH]);
    }
  }
  #pragma unroll
  for (int t = 0; t < TAPS; ++t) {
    const float whole = over_team<Sum, 32>(sum[t], found[0]);
    if (threadIdx.x % 32 == 0) found[threadIdx.x / 32][t] = whole;
  }
  __syncthreads();
  float whole = 0.0f;
  if (threadIdx.x < TAPS)
    for (int i = 0; i < THREADS / 32; ++i) whole += found[i][threadIdx.x];
  if (SPLITS > 1) {
    if (threadIdx.x < TAPS) p_shares_4[block * TAPS + threadIdx.x] = whole;
    if (!last_to_come(p_came_4 + pair, SPLITS)) return;
    whole = 0.0f;
    if (threadIdx.x < TAPS)
  #pragma unroll 8
      for (int i = 0; i < SPLITS; ++i)
        whole += fetched(p_shares_4 + (pair * SPLITS + i) * TAPS + threadIdx.x);
  }
  if (threadIdx.x < TAPS) p_grad_weight[pair * TAPS + threadIdx.x] = whole;
}

__device__ __forceinline__ void rows_5_0(const int block, const int blocks, float* __restrict__ p_partial_5_1, const float* __restrict__ p_buffer0, float* __restrict__ p_grad_bias) {
  constexpr int COLS = COLS_5_0, WIDTH = WIDTH_5_0, TEAM = TEAM_5_0, TEAMS = TEAMS_5_0;
  constexpr int CHUNKS = CHUNKS_5_0, PARTS = PARTS_5_0;
  using Index = INDEX_5_0;
  constexpr Index ROWS = ROWS_5_0;
  constexpr bool WHOLE = TEAM >= 32 || ROWS % (32 / TEAM) == 0;
  __shared__ float slots[2][1][32];
  int turn = 0;
  (void)slots, (void)turn;
  const int team = threadIdx.x / TEAM, lane = threadIdx.x % TEAM, part = block % PARTS;
  const int me = block / PARTS * TEAMS + team, all = blocks / PARTS * TEAMS;
  (void)WHOLE, (void)lane, (void)part;
  float* const partial1 = p_partial_5_1 + static_cast<long long>(me) * COLS;
  alignas(16) float c1[COLUMNS_5_0 ? CHUNKS : 1][WIDTH];
  for (int k = 0; k < (COLUMNS_5_0 ? CHUNKS : 1); ++k)
    for (int j = 0; j < WIDTH; ++j) c1[k][j] = Sum::nothing();
  if (!COLUMNS_5_0 && !ONLY_5_0)
  #pragma unroll (COLUMNS_5_0 ? CHUNKS : 4)
    for (int k = 0; k < CHUNKS; ++k) {
      const int c = ((k * PARTS + part) * TEAM + lane) * WIDTH;
      if (c < COLS) store(partial1 + c, c1[0]);
    }
  for (Index row = me; row < ROWS; row += all) {
    #pragma unroll (COLUMNS_5_0 ? CHUNKS : 4)
    for (int k = 0; k < CHUNKS; ++k) {
      const int c = ((k * PARTS + part) * TEAM + lane) * WIDTH;
      if (c < COLS) {
        alignas(16) float l0[WIDTH];
        load(l0, p_buffer0 + row * COLS + c);
        if (!COLUMNS_5_0 && !ONLY_5_0) load(c1[0], partial1 + c);
        #pragma unroll
        for (int j = 0; j < WIDTH; ++j) {
          c1[COLUMNS_5_0 ? k : 0][j] = Sum::join(
              !ONLY_5_0 ? c1[COLUMNS_5_0 ? k : 0][j] : Sum::nothing(), static_cast<float>(l0[j]));
        }
        if (!COLUMNS_5_0 && !ONLY_5_0) store(partial1 + c, c1[0]);
        if (ONLY_5_0) {
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
  if (COLUMNS_5_0)
  #pragma unroll (COLUMNS_5_0 ? CHUNKS : 4)
    for (int k = 0; k < CHUNKS; ++k) {
      const int c = ((k * PARTS + part) * TEAM + lane) * WIDTH;
      if (c < COLS) store(partial1 + c, c1[COLUMNS_5_0 ? k : 0]);
    }
}

__device__ __forceinline__ void columns_5_0(const int block, const int blocks, const float* __restrict__ p_partial_5_1, float* __restrict__ p_grad_bias) {
  constexpr int COLS = JOINED_5_0, PARTIALS = PARTIALS_5_0, GROUPS = SHARING_5_0;
  constexpr int LANES = 256 / GROUPS;
  __shared__ float found[1][GROUPS][LANES];
  const int lane = threadIdx.x % LANES, group = threadIdx.x / LANES;
  const int c = block * LANES + lane;
  float a1 = Sum::nothing();
  if (c < COLS)
  #pragma unroll 4
    for (int i = group; i < PARTIALS; i += GROUPS)
      a1 = Sum::join(a1, p_partial_5_1[static_cast<long long>(i) * COLS + c]);
  found[0][group][lane] = a1;
  __syncthreads();
  if (group == 0 && c < COLS) {
    for (int i = 1; i < GROUPS; ++i) a1 = Sum::join(a1, found[0][i][lane]);
    const float v1 = a1;
    p_grad_bias[c] = v1;
  }
}

extern "C" __global__ void __launch_bounds__(THREADS_0, LEAST_0) launch0(
    const float* __restrict__ p_saved_out,
    const float* __restrict__ p_grad_out,
    unsigned long long* __restrict__ p_met_0_0,
    float* __restrict__ p_buffer0) {
  let_next_launch_start();
  if (blockIdx.x < 0 + BLOCKS_rows_0_0) {
    if (threadIdx.x < THREADS_rows_0_0)
      rows_0_0(blockIdx.x - (0), BLOCKS_rows_0_0, p_saved_out, p_grad_out, p_met_0_0, p_buffer0);
  }
}

extern "C" __global__ void __launch_bounds__(THREADS_1, LEAST_1) launch1(
    const float* __restrict__ p_saved_out,
    const float* __restrict__ p_grad_out,
    float* __restrict__ p_buffer1,
    float* __restrict__ p_partial_5_1,
    const float* __restrict__ p_buffer0,
    float* __restrict__ p_grad_bias) {
  let_next_launch_start();
  wait_for_launch_before();
  if (blockIdx.x < 0 + BLOCKS_flat_1_0) {
    if (threadIdx.x < THREADS_flat_1_0)
      flat_1_0(blockIdx.x - (0), BLOCKS_flat_1_0, p_saved_out, p_grad_out, p_buffer1);
    return;
  }
  if (blockIdx.x < 0 + BLOCKS_flat_1_0 + BLOCKS_rows_5_0) {
    if (threadIdx.x < THREADS_rows_5_0)
      rows_5_0(blockIdx.x - (0 + BLOCKS_flat_1_0), BLOCKS_rows_5_0, p_partial_5_1, p_buffer0, p_grad_bias);
  }
}

extern "C" __global__ void __launch_bounds__(THREADS_2, LEAST_2) launch2(
    float* __restrict__ p_buffer2,
    const long long* __restrict__ p_saved_places,
    const float* __restrict__ p_buffer1,
    const float* __restrict__ p_partial_5_1,
    float* __restrict__ p_grad_bias) {
  let_next_launch_start();
  wait_for_launch_before();
  if (blockIdx.x < 0 + BLOCKS_scatter_2) {
    if (threadIdx.x < THREADS_scatter_2)
      scatter_2(blockIdx.x - (0), BLOCKS_scatter_2, p_buffer2, p_saved_places, p_buffer1);
    return;
  }
  if (blockIdx.x < 0 + BLOCKS_scatter_2 + BLOCKS_columns_5_0) {
    if (threadIdx.x < THREADS_columns_5_0)
      columns_5_0(blockIdx.x - (0 + BLOCKS_scatter_2), BLOCKS_columns_5_0, p_partial_5_1, p_grad_bias);
  }
}

extern "C" __global__ void __launch_bounds__(THREADS_3, LEAST_3) launch3(
    float* __restrict__ p_grad_x,
    const float* __restrict__ p_weight,
    const float* __restrict__ p_buffer2,
    const float* __restrict__ p_x,
    float* __restrict__ p_grad_weight,
    float* __restrict__ p_shares_4,
    unsigned* __restrict__ p_came_4) {
  wait_for_launch_before();
  if (blockIdx.x < 0 + BLOCKS_convolution_3) {
    if (threadIdx.x < THREADS_convolution_3)
      convolution_3(blockIdx.x - (0), BLOCKS_convolution_3, p_grad_x, p_weight, p_buffer2);
    return;
  }
  if (blockIdx.x < 0 + BLOCKS_convolution_3 + BLOCKS_convolution_4) {
    if (threadIdx.x < THREADS_convolution_4)
      convolution_4(blockIdx.x - (0 + BLOCKS_convolution_3), BLOCKS_convolution_4, p_buffer2, p_x, p_grad_weight, p_shares_4, p_came_4);
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


def plan(x, weight, bias, saved_out, saved_places, grad_out, grad_x, grad_weight, grad_bias):
    steps_, definitions_ = [], {}
    buffer0 = kw.scratch("buffer0", 4 * (saved_out.size(0) * saved_out.size(1)))
    buffer1 = kw.scratch("buffer1", 4 * (saved_out.size(0) * saved_out.size(1) * saved_out.size(2) * saved_out.size(3)))
    buffer2 = kw.scratch("buffer2", 4 * (x.size(0) * weight.size(0) * ((x.size(2) + (-3)) // 1 + 1) * ((x.size(3) + (-3)) // 1 + 1)))
    rows_0_0, cols_0_0 = saved_out.size(0) * saved_out.size(1), saved_out.size(2) * saved_out.size(3)
    width_0_0 = widest(4, cols_0_0)
    team_0_0 = min(256, max(4, power(ceil(cols_0_0, 8))))
    parts_0_0 = 1
    solo_0_0 = False
    if cols_0_0 >= 8192 and (2 * rows_0_0 <= kw.device.multiprocessors or cols_0_0 >= 32768) and not solo_0_0:
        team_0_0, room_0_0 = 1024, kw.device.multiprocessors * 1
        most_0_0 = max(1, min(rows_0_0, kw.device.multiprocessors // 2))
        together_0_0 = most_0_0
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
    met_0_0 = kw.workspace("met_0_0", 8 * (1 * parts_0_0 + 1) * (rows_0_0 if parts_0_0 > 1 else 1))
    definitions_["NUMBER_0_2"] = literal(float(0))
    blocks_rows_0_0, threads_rows_0_0 = (groups_0_0 * parts_0_0), team_0_0 * teams_0_0
    definitions_["BLOCKS_rows_0_0"] = blocks_rows_0_0
    definitions_["THREADS_rows_0_0"] = threads_rows_0_0
    blocks_ = blocks_rows_0_0
    threads_ = max([threads_rows_0_0])
    definitions_["THREADS_0"] = threads_
    definitions_["LEAST_0"] = min(1 if parts_0_0 > 1 else max(1, 0 // threads_0_0), 2048 // threads_)
    if blocks_:
        steps_.append(kw.launch("launch0", blocks_, threads_, saved_out, grad_out, met_0_0, buffer0, cooperative=parts_0_0 > 1))
    rows_1_0 = 1
    cols_1_0 = saved_out.size(0) * saved_out.size(1) * saved_out.size(2) * saved_out.size(3)
    rows_1_0, cols_1_0 = 1, rows_1_0 * cols_1_0
    width_1_0 = widest(4, cols_1_0)
    vectors_1_0 = rows_1_0 * cols_1_0 // width_1_0
    definitions_["COLS_1_0"] = cols_1_0
    definitions_["WIDTH_1_0"] = width_1_0
    definitions_["VECTORS_1_0"] = vectors_1_0
    definitions_["NUMBER_1_2"] = literal(float(0))
    blocks_flat_1_0, threads_flat_1_0 = (ceil(vectors_1_0, 512)), 256
    definitions_["BLOCKS_flat_1_0"] = blocks_flat_1_0
    definitions_["THREADS_flat_1_0"] = threads_flat_1_0
    rows_5_0, cols_5_0 = x.size(0), weight.size(0)
    width_5_0 = widest(4, cols_5_0)
    team_5_0 = min(256, max(4, power(ceil(cols_5_0, 8))))
    parts_5_0 = 1
    owned_5_0 = False
    solo_5_0 = False
    teams_5_0 = max(1, 128 // team_5_0) if team_5_0 <= 32 else 1
    groups_5_0 = ceil(rows_5_0, teams_5_0)
    groups_5_0 = min(groups_5_0, kw.device.multiprocessors * max(1, 2 * 256 // (team_5_0 * teams_5_0)))
    chunks_5_0 = ceil(cols_5_0, team_5_0 * width_5_0 * parts_5_0)
    definitions_["ROWS_5_0"] = rows_5_0
    definitions_["COLS_5_0"] = cols_5_0
    definitions_["WIDTH_5_0"] = width_5_0
    definitions_["TEAM_5_0"] = team_5_0
    definitions_["PARTS_5_0"] = parts_5_0
    definitions_["TEAMS_5_0"] = teams_5_0
    definitions_["CHUNKS_5_0"] = chunks_5_0
    definitions_["INDEX_5_0"] = 'int' if rows_5_0 * cols_5_0 < 2 ** 31 else 'long long'
    each_5_0, threads_5_0 = chunks_5_0 * width_5_0, team_5_0 * teams_5_0
    only_5_0 = rows_5_0 == 1
    definitions_["ONLY_5_0"] = int(only_5_0)
    summed_5_0 = int(not only_5_0 and 1 * each_5_0 <= (64 if parts_5_0 == 1 else 0))
    definitions_["COLUMNS_5_0"] = summed_5_0
    partial_5_1 = kw.scratch("partial_5_1", 4 * (cols_5_0 * groups_5_0 * teams_5_0 if not (only_5_0 or owned_5_0) else 1))
    blocks_rows_5_0, threads_rows_5_0 = (groups_5_0 * parts_5_0 if not owned_5_0 else 0), team_5_0 * teams_5_0
    definitions_["BLOCKS_rows_5_0"] = blocks_rows_5_0
    definitions_["THREADS_rows_5_0"] = threads_rows_5_0
    blocks_ = blocks_flat_1_0 + blocks_rows_5_0
    threads_ = max([threads_flat_1_0, threads_rows_5_0])
    definitions_["THREADS_1"] = threads_
    definitions_["LEAST_1"] = min(min([1, max(1, 0 // threads_5_0)]), 2048 // threads_)
    if blocks_:
        steps_.append(kw.launch("launch1", blocks_, threads_, saved_out, grad_out, buffer1, partial_5_1, buffer0, grad_bias, dependent=bool(steps_) and not (steps_[-1].cooperative or False)))
    rows_2 = saved_out.size(0) * saved_out.size(1)
    definitions_["ROWS_2"] = rows_2
    many_2 = saved_out.size(2) * saved_out.size(3)
    definitions_["MANY_2"] = many_2
    wide_2 = ((x.size(2) + (-3)) // 1 + 1) * ((x.size(3) + (-3)) // 1 + 1)
    definitions_["WIDE_2"] = wide_2
    blocks_scatter_2, threads_scatter_2 = (rows_2), 128
    definitions_["BLOCKS_scatter_2"] = blocks_scatter_2
    definitions_["THREADS_scatter_2"] = threads_scatter_2
    columns_5_0 = weight.size(0)
    definitions_["JOINED_5_0"] = columns_5_0
    sharing_5_0 = min(8, power(groups_5_0 * teams_5_0))
    definitions_["SHARING_5_0"] = sharing_5_0
    definitions_["PARTIALS_5_0"] = groups_5_0 * teams_5_0
    blocks_columns_5_0, threads_columns_5_0 = (ceil(columns_5_0, 256 // sharing_5_0) if not (only_5_0 or owned_5_0) else 0), 256
    definitions_["BLOCKS_columns_5_0"] = blocks_columns_5_0
    definitions_["THREADS_columns_5_0"] = threads_columns_5_0
    blocks_ = blocks_scatter_2 + blocks_columns_5_0
    threads_ = max([threads_scatter_2, threads_columns_5_0])
    definitions_["THREADS_2"] = threads_
    definitions_["LEAST_2"] = min(1, 2048 // threads_)
    if blocks_:
        steps_.append(kw.launch("launch2", blocks_, threads_, buffer2, saved_places, buffer1, partial_5_1, grad_bias, dependent=bool(steps_) and not (steps_[-1].cooperative or False)))
    batch_3 = x.size(0)
    definitions_["BATCH_3"] = batch_3
    channels_3 = x.size(1)
    definitions_["CHANNELS_3"] = channels_3
    height_3 = x.size(2)
    definitions_["HEIGHT_3"] = height_3
    width_3 = x.size(3)
    definitions_["WIDTH_3"] = width_3
    filters_3 = weight.size(0)
    definitions_["FILTERS_3"] = filters_3
    tall_3 = ((x.size(2) + (-3)) // 1 + 1)
    definitions_["TALL_3"] = tall_3
    broad_3 = ((x.size(3) + (-3)) // 1 + 1)
    definitions_["BROAD_3"] = broad_3
    group_3 = min(4, channels_3)
    definitions_["GROUP_3"] = group_3
    definitions_["INDEX_3"] = 'int' if batch_3 * max(channels_3 * height_3 * width_3, filters_3 * tall_3 * broad_3) < 2 ** 31 else 'long long'
    blocks_convolution_3, threads_convolution_3 = (ceil(batch_3 * height_3 * width_3, 32) * ceil(channels_3, group_3)), 128
    definitions_["BLOCKS_convolution_3"] = blocks_convolution_3
    definitions_["THREADS_convolution_3"] = threads_convolution_3
    batch_4 = x.size(0)
    definitions_["BATCH_4"] = batch_4
    channels_4 = x.size(1)
    definitions_["CHANNELS_4"] = channels_4
    height_4 = x.size(2)
    definitions_["HEIGHT_4"] = height_4
    width_4 = x.size(3)
    definitions_["WIDTH_4"] = width_4
    filters_4 = weight.size(0)
    definitions_["FILTERS_4"] = filters_4
    tall_4 = ((x.size(2) + (-3)) // 1 + 1)
    definitions_["TALL_4"] = tall_4
    broad_4 = ((x.size(3) + (-3)) // 1 + 1)
    definitions_["BROAD_4"] = broad_4
    pairs_4 = filters_4 * channels_4
    definitions_["PAIRS_4"] = pairs_4
    splits_4 = min(batch_4, max(1, 4 * kw.device.multiprocessors // pairs_4))
    definitions_["SPLITS_4"] = splits_4
    shares_4 = kw.scratch("shares_4", 4 * splits_4 * pairs_4 * 9)
    came_4 = kw.workspace("came_4", 4 * pairs_4)
    definitions_["INDEX_4"] = 'int' if batch_4 * max(channels_4 * height_4 * width_4, filters_4 * tall_4 * broad_4) < 2 ** 31 else 'long long'
    blocks_convolution_4, threads_convolution_4 = (pairs_4 * splits_4), 128
    definitions_["BLOCKS_convolution_4"] = blocks_convolution_4
    definitions_["THREADS_convolution_4"] = threads_convolution_4
    blocks_ = blocks_convolution_3 + blocks_convolution_4
    threads_ = max([threads_convolution_3, threads_convolution_4])
    definitions_["THREADS_3"] = threads_
    definitions_["LEAST_3"] = min(1, 2048 // threads_)
    if blocks_:
        steps_.append(kw.launch("launch3", blocks_, threads_, grad_x, weight, buffer2, x, grad_weight, shares_4, came_4, dependent=bool(steps_) and not (steps_[-1].cooperative or False)))
    return kw.plan(*steps_, definitions=definitions_)
*/
