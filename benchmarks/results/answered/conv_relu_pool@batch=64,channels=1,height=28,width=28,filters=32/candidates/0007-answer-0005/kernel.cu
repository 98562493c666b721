// A block takes a band of windows of one image and a slice of the filters; x and weights come by cp.async. While they are on their way
// the block rehearses its loop once on memory that nobody writes: the instructions, as cold as the data, then arrive at the same time.
constexpr int DOWN = (HEIGHT - 2) / 2, ACROSS = (WIDTH - 2) / 2, PLACES = DOWN * ACROSS, PLANE = HEIGHT * WIDTH;
constexpr int PAIRS = (ROWS * ACROSS + 1) / 2, SLICE = TEAMS * GROUP;
constexpr int SEGMENT = ((2 * ROWS + 2) * WIDTH + 6) / 4 * 4;  // rows of x that begin up to 3 floats late
constexpr int TAPS = CHANNELS * SEGMENT;                       // [SLICE][CHANNELS][12]: nine weights, behind those of channel 0 the bias
constexpr int STAGE = TAPS + SLICE * CHANNELS * 12;            // 4 * WIDTH floats for the rehearsal

// NaN wins, as in torch.
__device__ __forceinline__ float most(float a, float b) {
  float larger;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(larger) : "f"(a), "f"(b));
  return larger;
}
// Largest of four and zero; volatile, so that the sums of both windows stay in front of the branches around the stores.
__device__ __forceinline__ float pooled(const float (&sum)[4]) {
  float r;
  asm volatile("max.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(most(most(sum[0], sum[1]), most(sum[2], sum[3]))), "f"(0.0f));
  return r;
}
__device__ __forceinline__ void copy16(float* to, const float* from, int bytes) {
  const unsigned shared = static_cast<unsigned>(__cvta_generic_to_shared(to));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared), "l"(from), "r"(bytes) : "memory");
}
__device__ __forceinline__ void copy4(float* to, const float* from) {
  const unsigned shared = static_cast<unsigned>(__cvta_generic_to_shared(to));
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(shared), "l"(from) : "memory");
}
// Rows of even width keep every patch on 8 bytes.
__device__ __forceinline__ float2 two(const float* from) {
  if (WIDTH % 2 == 0) return *reinterpret_cast<const float2*>(from);
  return make_float2(from[0], from[1]);
}

// `first` is 0 with a rehearsal, 1 without.
extern "C" __global__ void __launch_bounds__(THREADS) conv(
    const float* __restrict__ x,
    const float* __restrict__ weight,
    const float* __restrict__ bias,
    float* __restrict__ out,
    int first) {
  extern __shared__ __align__(16) float arena[];
  const int tid = threadIdx.x;
  const int slice = blockIdx.x % SLICES, band = blockIdx.x / SLICES % BANDS, b = blockIdx.x / (SLICES * BANDS);
  const int top = band * ROWS, rows = min(ROWS, DOWN - top), windows = rows * ACROSS;
  const int from = slice * SLICE, filters = min(SLICE, FILTERS - from);

  int skew[CHANNELS];
#pragma unroll
  for (int c = 0; c < CHANNELS; ++c) {
    const int begin = (b * CHANNELS + c) * PLANE + 2 * top * WIDTH, end = begin + (2 * rows + 2) * WIDTH, low = begin & ~3;
    skew[c] = begin - low;
    for (int i = low + 4 * tid; i < end; i += 4 * THREADS)
      copy16(arena + c * SEGMENT + (i - low), x + i, 4 * min(4, end - i));
  }
  for (int i = tid; i < filters * CHANNELS * 9; i += THREADS)
    copy4(arena + TAPS + i / 9 * 12 + i % 9, weight + from * CHANNELS * 9 + i);
  for (int i = tid; i < filters; i += THREADS) copy4(arena + TAPS + i * CHANNELS * 12 + 9, bias + from + i);

  const int team = tid / PAIRS, pair = tid % PAIRS;
  const int count = team < TEAMS ? min(GROUP, filters - team * GROUP) : 0;
  int corner[2];
  bool inside[2];
#pragma unroll
  for (int p = 0; p < 2; ++p) {
    const int place = pair + p * PAIRS, safe = min(place, windows - 1);
    inside[p] = place < windows;
    corner[p] = safe / ACROSS * 2 * WIDTH + safe % ACROSS * 2;
  }
  float* to = out + ((b * FILTERS + from + team * GROUP) * PLACES + top * ACROSS + pair);

#pragma unroll 1
  for (int live = first; live < 2; ++live) {
    if (live) {
      asm volatile("cp.async.wait_all;" ::: "memory");
      __syncthreads();
    }
    float patch[2][CHANNELS][4][4];
#pragma unroll
    for (int p = 0; p < 2; ++p)
#pragma unroll
      for (int c = 0; c < CHANNELS; ++c) {
        const int spot = live ? c * SEGMENT + skew[c] + corner[p] : STAGE;
#pragma unroll
        for (int i = 0; i < 8; ++i) {
          const float2 v = two(arena + spot + i / 2 * WIDTH + i % 2 * 2);
          patch[p][c][i / 2][i % 2 * 2] = v.x;
          patch[p][c][i / 2][i % 2 * 2 + 1] = v.y;
        }
      }
    int w = live ? TAPS + team * GROUP * CHANNELS * 12 : STAGE;
    const int turns = live ? count : 1;
#pragma unroll 1
    for (int f = 0; f < turns; ++f, w += CHANNELS * 12) {
      float k[CHANNELS * 12];
#pragma unroll
      for (int i = 0; i < CHANNELS * 3; ++i) {
        const float4 v = *reinterpret_cast<const float4*>(arena + w + 4 * i);
        k[4 * i] = v.x;
        k[4 * i + 1] = v.y;
        k[4 * i + 2] = v.z;
        k[4 * i + 3] = v.w;
      }
      float sum[2][4];
#pragma unroll
      for (int i = 0; i < 8; ++i) sum[i / 4][i % 4] = k[9];
#pragma unroll
      for (int c = 0; c < CHANNELS; ++c)
#pragma unroll
        for (int t = 0; t < 9; ++t)
#pragma unroll
          for (int i = 0; i < 8; ++i) {
            const int p = i / 4, q = i % 4;
            sum[p][q] = fmaf(patch[p][c][q / 2 + t / 3][q % 2 + t % 3], k[c * 12 + t], sum[p][q]);
          }
      const float best[2] = {pooled(sum[0]), pooled(sum[1])};
#pragma unroll
      for (int p = 0; p < 2; ++p) {
        if (live && inside[p]) to[f * PLACES + p * PAIRS] = best[p];
      }
    }
  }
}







































