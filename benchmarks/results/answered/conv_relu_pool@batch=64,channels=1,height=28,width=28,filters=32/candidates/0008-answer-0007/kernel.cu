// Direct sums, four filters and one pooled place a thread. The weights come by uniform 16-byte loads straight into registers,
// beside the loads of x: no shared memory, no barrier. Where the grid would need several waves, blocks keep their weights and walk over places.

constexpr int BATCH = BATCH_N, CHANNELS = CHANNELS_N, HEIGHT = HEIGHT_N, WIDTH = WIDTH_N, FILTERS = FILTERS_N;
constexpr int THREADS = THREADS_N, LEAST = LEAST_N, TILES = TILES_N, LANES = LANES_N;
constexpr int TAPS = 9, GROUP = 4, GROUPS = (FILTERS + GROUP - 1) / GROUP;
constexpr int FULL = FILTERS / GROUP, REST = FILTERS % GROUP;
constexpr int SLICE = GROUP * CHANNELS * TAPS;  // a multiple of 4, so that each group begins at 16 bytes
constexpr int DOWN = (HEIGHT - 2) / 2, ACROSS = (WIDTH - 2) / 2, PLACES = DOWN * ACROSS, ALL = BATCH * PLACES;

// NaN wins, as in torch.
__device__ __forceinline__ float most(float a, float b) {
  float larger;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(larger) : "f"(a), "f"(b));
  return larger;
}

// `Count` floats from a 16-byte boundary, nothing beyond them; zeros for the others.
template <int Count, int Size>
__device__ __forceinline__ void fetch(float (&to)[Size], const float* __restrict__ from) {
#pragma unroll
  for (int i = 0; i < Size; i += 4) {
    if (i + 4 <= Count) {
      const float4 four = __ldg(reinterpret_cast<const float4*>(from + i));
      to[i] = four.x;
      to[i + 1] = four.y;
      to[i + 2] = four.z;
      to[i + 3] = four.w;
    } else {
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        to[i + j] = 0.0f;
        if (i + j < Count) to[i + j] = __ldg(from + i + j);
      }
    }
  }
}

extern "C" __global__ void __launch_bounds__(THREADS, LEAST) launch0(
    const float* __restrict__ p_x,
    const float* __restrict__ p_weight,
    const float* __restrict__ p_bias,
    float* __restrict__ p_out) {
  const int block = blockIdx.x;
  const int group = block % GROUPS;
  int tile = block / GROUPS;

  float weights[SLICE], start[GROUP];
  if (REST == 0 || group < FULL) {
    fetch<SLICE>(weights, p_weight + group * SLICE);
    fetch<GROUP>(start, p_bias + group * GROUP);
  } else {
    fetch<REST * CHANNELS * TAPS>(weights, p_weight + FULL * SLICE);
    fetch<REST>(start, p_bias + FULL * GROUP);
  }

  do {
    const int at = tile * THREADS + static_cast<int>(threadIdx.x);
    const bool mine = at < ALL;
    const int safe = mine ? at : ALL - 1;  // so that every patch lies inside of its plane
    const int b = safe / PLACES, place = safe - b * PLACES;
    const int row = place / ACROSS, col = place - row * ACROSS;
    const float* const corner = p_x + b * (CHANNELS * HEIGHT * WIDTH) + row * (2 * WIDTH) + col * 2;

    float patch[CHANNELS][4][4];
#pragma unroll
    for (int c = 0; c < CHANNELS; ++c)
#pragma unroll
      for (int i = 0; i < 4; ++i)
#pragma unroll
        for (int j = 0; j < 4; j += 2) {
          const float* const from = corner + c * (HEIGHT * WIDTH) + i * WIDTH + j;
          if (WIDTH % 2 == 0) {
            const float2 two = __ldg(reinterpret_cast<const float2*>(from));
            patch[c][i][j] = two.x;
            patch[c][i][j + 1] = two.y;
          } else {
            patch[c][i][j] = __ldg(from);
            patch[c][i][j + 1] = __ldg(from + 1);
          }
        }

    float sum[GROUP][4];
#pragma unroll
    for (int g = 0; g < GROUP; ++g)
#pragma unroll
      for (int q = 0; q < 4; ++q) sum[g][q] = start[g];
#pragma unroll
    for (int c = 0; c < CHANNELS; ++c)
#pragma unroll
      for (int t = 0; t < TAPS; ++t)
#pragma unroll
        for (int g = 0; g < GROUP; ++g)
#pragma unroll
          for (int q = 0; q < 4; ++q)
            sum[g][q] = fmaf(patch[c][q / 2 + t / 3][q % 2 + t % 3], weights[(g * CHANNELS + c) * TAPS + t], sum[g][q]);

    if (mine) {
      float* const to = p_out + (b * FILTERS + group * GROUP) * PLACES + place;
#pragma unroll
      for (int g = 0; g < GROUP; ++g) {
        if (REST == 0 || group * GROUP + g < FILTERS)
          to[g * PLACES] = most(most(most(sum[g][0], sum[g][1]), most(sum[g][2], sum[g][3])), 0.0f);
      }
    }
    tile += LANES;
  } while (LANES < TILES && tile < TILES);
}

























