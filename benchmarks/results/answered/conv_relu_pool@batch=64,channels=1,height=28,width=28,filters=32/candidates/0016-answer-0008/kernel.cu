// The patch of x stays in registers while a short loop walks over many filters; a filter's weights and bias lie packed in shared
// memory, 3 or 5 16-byte broadcasts each. The plan weighs places a thread and filters a block so that multiprocessors end together.

constexpr int BATCH = BATCH_N, CHANNELS = CHANNELS_N, HEIGHT = HEIGHT_N, WIDTH = WIDTH_N, FILTERS = FILTERS_N;
constexpr int THREADS = THREADS_N, LEAST = LEAST_N, MANY = MANY_N, EACH = EACH_N, TURNS = UNROLL_N;
constexpr int GROUPS = (FILTERS + EACH - 1) / EACH;
constexpr int TAPS = 9, DEPTH = CHANNELS * TAPS;
constexpr int PITCH = (DEPTH + 1 + 3) / 4 * 4;  // weights, bias, up to a multiple of 16 bytes
constexpr int DOWN = (HEIGHT - 2) / 2, ACROSS = (WIDTH - 2) / 2, PLACES = DOWN * ACROSS, ALL = BATCH * PLACES;
constexpr int LOADS = (EACH * DEPTH + THREADS - 1) / THREADS;
static_assert(EACH <= THREADS, "a thread brings at most one bias");

// NaN wins, as in torch.
__device__ __forceinline__ float most(float a, float b) {
  float larger;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(larger) : "f"(a), "f"(b));
  return larger;
}

extern "C" __global__ void __launch_bounds__(THREADS, LEAST) launch0(
    const float* __restrict__ p_x,
    const float* __restrict__ p_weight,
    const float* __restrict__ p_bias,
    float* __restrict__ p_out) {
  __shared__ __align__(16) float packed[EACH * PITCH];
  const int thread = threadIdx.x, block = blockIdx.x;
  const int group = block % GROUPS, tile = block / GROUPS;
  const int begin = group * EACH;
  const int count = FILTERS % EACH == 0 || begin + EACH <= FILTERS ? EACH : FILTERS - begin;

  // All loads from global memory are under way before the first is waited for.
  float brought[LOADS], bias = 0.0f;
#pragma unroll
  for (int k = 0; k < LOADS; ++k) {
    const int i = k * THREADS + thread;
    brought[k] = 0.0f;
    if (i < count * DEPTH) brought[k] = __ldg(p_weight + begin * DEPTH + i);
  }
  if (thread < count) bias = __ldg(p_bias + begin + thread);

  float patch[MANY][CHANNELS][4][4];
  int to[MANY];
  bool mine[MANY];
#pragma unroll
  for (int m = 0; m < MANY; ++m) {
    const int at = (tile * MANY + m) * THREADS + thread;
    mine[m] = at < ALL;
    const int safe = mine[m] ? at : ALL - 1;  // so that every patch lies inside of its plane
    const int b = safe / PLACES, place = safe - b * PLACES;
    const int row = place / ACROSS, col = place - row * ACROSS;
    const float* const corner = p_x + b * (CHANNELS * HEIGHT * WIDTH) + row * (2 * WIDTH) + col * 2;
    to[m] = (b * FILTERS + begin) * PLACES + place;
#pragma unroll
    for (int c = 0; c < CHANNELS; ++c)
#pragma unroll
      for (int i = 0; i < 4; ++i)
#pragma unroll
        for (int j = 0; j < 4; j += 2) {
          const float* const from = corner + c * (HEIGHT * WIDTH) + i * WIDTH + j;
          if (WIDTH % 2 == 0) {
            const float2 two = __ldg(reinterpret_cast<const float2*>(from));
            patch[m][c][i][j] = two.x;
            patch[m][c][i][j + 1] = two.y;
          } else {
            patch[m][c][i][j] = __ldg(from);
            patch[m][c][i][j + 1] = __ldg(from + 1);
          }
        }
  }

#pragma unroll
  for (int k = 0; k < LOADS; ++k) {
    const int i = k * THREADS + thread;
    if (i < EACH * DEPTH) packed[i / DEPTH * PITCH + i % DEPTH] = brought[k];
  }
  if (thread < EACH) packed[thread * PITCH + DEPTH] = bias;
  __syncthreads();

#pragma unroll (TURNS)
  for (int f = 0; f < count; ++f) {
    float weights[PITCH];
#pragma unroll
    for (int i = 0; i < PITCH; i += 4) {
      const float4 four = *reinterpret_cast<const float4*>(packed + f * PITCH + i);
      weights[i] = four.x;
      weights[i + 1] = four.y;
      weights[i + 2] = four.z;
      weights[i + 3] = four.w;
    }
    float sum[MANY][4];
#pragma unroll
    for (int m = 0; m < MANY; ++m)
#pragma unroll
      for (int q = 0; q < 4; ++q) sum[m][q] = weights[DEPTH];
#pragma unroll
    for (int c = 0; c < CHANNELS; ++c)
#pragma unroll
      for (int t = 0; t < TAPS; ++t)
#pragma unroll
        for (int m = 0; m < MANY; ++m)
#pragma unroll
          for (int q = 0; q < 4; ++q)
            sum[m][q] = fmaf(patch[m][c][q / 2 + t / 3][q % 2 + t % 3], weights[c * TAPS + t], sum[m][q]);
#pragma unroll
    for (int m = 0; m < MANY; ++m) {
      const float best = most(most(sum[m][0], sum[m][1]), most(sum[m][2], sum[m][3]));
      if (mine[m]) p_out[to[m] + f * PLACES] = most(best, 0.0f);
    }
  }
}





































