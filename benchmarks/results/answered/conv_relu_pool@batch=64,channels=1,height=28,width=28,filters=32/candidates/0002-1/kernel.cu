// conv_relu_pool@batch=64,channels=1,height=28,width=28,filters=32: convolution by direct sums, 4 planes for each thread, weights in shared memory, the steps after it on each element, pooled in registers.
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

__device__ __forceinline__ void convolution_0(const int block, const int blocks, const float* __restrict__ p_bias, float* __restrict__ p_out, const float* __restrict__ p_x, const float* __restrict__ p_weight) {
  constexpr int BATCH = BATCH_0, CHANNELS = CHANNELS_0, HEIGHT = HEIGHT_0, WIDTH = WIDTH_0, FILTERS = FILTERS_0, TALL = TALL_0, BROAD = BROAD_0;
  using Index = INDEX_0;
  constexpr int KH = 3, KW = 3, SH = 1, SW = 1, PH = 0, PW = 0, DH = 1, DW = 1;
  constexpr int TAPS = KH * KW, THREADS = 128;
  constexpr int GROUP = 4, GROUPS = (FILTERS + GROUP - 1) / GROUP;
  constexpr int DOWN = (TALL - 2) / 2 + 1, ACROSS = (BROAD - 2) / 2 + 1, PLACES = DOWN * ACROSS;
  constexpr int QH = 2, QW = 2, COLS = TALL * BROAD;
  constexpr int PATCH_H = (QH - 1) * SH + (KH - 1) * DH + 1, PATCH_W = (QW - 1) * SW + (KW - 1) * DW + 1;
  (void)COLS;
  const int group = block % GROUPS;
  const Index at = static_cast<Index>(block / GROUPS) * THREADS + threadIdx.x;
  const bool mine = at < static_cast<Index>(BATCH) * PLACES;
  const Index b = at / PLACES;
  const int place = at - b * PLACES;
  const int down = place / ACROSS * 2, across = place % ACROSS * 2;
  float patch[PATCH_H][PATCH_W];
  const auto read = [&](const int channel) {
    const float* const plane = p_x + (b * CHANNELS + channel) * (HEIGHT * WIDTH);
  #pragma unroll
    for (int i = 0; i < PATCH_H * PATCH_W; ++i) {
      const int y = down * SH - PH + i / PATCH_W, x = across * SW - PW + i % PATCH_W;
      const bool inside = mine && y >= 0 && y < HEIGHT && x >= 0 && x < WIDTH;
      patch[i / PATCH_W][i % PATCH_W] = inside ? plane[y * WIDTH + x] : 0.0f;
    }
  };
  read(0);
  float early0[GROUP];
  #pragma unroll
  for (int g = 0; g < GROUP; ++g) {
    const Index row = b * FILTERS + group * GROUP + g;
    if (mine && group * GROUP + g < FILTERS) early0[g] = p_bias[row % static_cast<long long>(PERIOD_0_0)];
  }
  float sum[QH * QW][GROUP] = {};
  constexpr int MOST = 8192 / (GROUP * TAPS), CHUNK = CHANNELS < MOST ? CHANNELS : MOST;
  __shared__ __align__(16) float weights[CHUNK][TAPS][GROUP];
  for (int first = 0; first < CHANNELS; first += CHUNK) {
    if (first) __syncthreads();
    for (int i = threadIdx.x; i < CHUNK * TAPS * GROUP; i += THREADS) {
      const int g = group * GROUP + i / TAPS / CHUNK, d = i / TAPS % CHUNK + first, t = i % TAPS;
      const bool inside = g < FILTERS && d < CHANNELS;
      weights[d - first][t][g - group * GROUP] = inside ? p_weight[(g * CHANNELS + d) * TAPS + t] : 0.0f;
    }
    __syncthreads();
    for (int d = 0; d < CHUNK && first + d < CHANNELS; ++d) {
      float now[PATCH_H][PATCH_W];
  #pragma unroll
      for (int i = 0; i < PATCH_H; ++i) copy(now[i], patch[i]);
      if (first + d + 1 < CHANNELS) read(first + d + 1);
  #pragma unroll
      for (int t = 0; t < TAPS; ++t)
  #pragma unroll
        for (int g = 0; g < GROUP; ++g)
  #pragma unroll
          for (int q = 0; q < QH * QW; ++q)
            sum[q][g] += now[q / QW * SH + t / KW * DH][q % QW * SW + t % KW * DW] * weights[d][t][g];
    }
  }
  if (!mine) return;
  #pragma unroll
  for (int g = 0; g < GROUP; ++g) {
    if (group * GROUP + g >= FILTERS) break;
    const Index row = b * FILTERS + group * GROUP + g;
    float best = -INF;
    #pragma unroll
    for (int q = 0; q < QH * QW; ++q) {
      const int c = (down + q / QW) * BROAD + across + q % QW;
      const float product = sum[q][g];
      const float v0 = early0[g];
      const float v2 = product + v0;
      const float v3 = most(v2, 0.0f);
      best = most(best, v3);
    }
    p_out[row * PLACES + place] = best;
  }
}

extern "C" __global__ void __launch_bounds__(THREADS_0, LEAST_0) launch0(
    const float* __restrict__ p_bias,
    float* __restrict__ p_out,
    const float* __restrict__ p_x,
    const float* __restrict__ p_weight) {
  if (blockIdx.x < 0 + BLOCKS_convolution_0) {
    if (threadIdx.x < THREADS_convolution_0)
      convolution_0(blockIdx.x - (0), BLOCKS_convolution_0, p_bias, p_out, p_x, p_weight);
  }
}




































































