// Tensor cores: a warp multiplies 8 windows (one m16 tile for each row of sums) by up to 32 filters over 8 taps in split TF32, the
// ninth tap is an FMA. Operands go from global memory straight to registers; results pass shared memory to be stored in whole rows.
constexpr int DOWN = (HEIGHT - 2) / 2, ACROSS = (WIDTH - 2) / 2, PLACES = DOWN * ACROSS, TOTAL = BATCH * PLACES;
constexpr int PLANE = HEIGHT * WIDTH, SPAN = 8 * TILES;
constexpr int PITCH = 36;  // puts filters 2t, t = 0 to 3, into banks 8t

// NaN wins, as in torch.
__device__ __forceinline__ float most(float a, float b) {
  float larger;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(larger) : "f"(a), "f"(b));
  return larger;
}
__device__ __forceinline__ unsigned tf32(float v) {
  unsigned r;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(r) : "f"(v));
  return r;
}
__device__ __forceinline__ void split(float v, unsigned& big, unsigned& rest) {
  big = tf32(v);
  rest = tf32(v - __uint_as_float(big));
}
__device__ __forceinline__ void mma(float (&c)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
  asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// What a lane needs of its window for row v of sums: taps t and t + 4 for the left and the right sum (rows g and g + 8 of the
// m16 tile) in the order of the fragment, and the ninth tap for both.
struct Windows {
  float tap[CHANNELS][2][4], ninth[CHANNELS][2][2];
};
__device__ __forceinline__ Windows fetch(const float* __restrict__ x, int at, int t) {
  at = min(at, TOTAL - 1);
  const int b = at / PLACES, place = at % PLACES;
  const float* const corner = x + (b * CHANNELS * PLANE + place / ACROSS * 2 * WIDTH + place % ACROSS * 2);
  const float* const low = corner + (t / 3 * WIDTH + t % 3);
  const float* const high = corner + ((t + 4) / 3 * WIDTH + (t + 4) % 3);
  Windows w;
#pragma unroll
  for (int c = 0; c < CHANNELS; ++c)
#pragma unroll
    for (int v = 0; v < 2; ++v)
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        const int offset = c * PLANE + v * WIDTH + j;
        w.tap[c][v][j] = __ldg(low + offset);
        w.tap[c][v][2 + j] = __ldg(high + offset);
        w.ninth[c][v][j] = __ldg(corner + offset + 2 * WIDTH + 2);
      }
  return w;
}

extern "C" __global__ void __launch_bounds__(128, RESIDENT) conv(
    const float* __restrict__ x,
    const float* __restrict__ weight,
    const float* __restrict__ bias,
    float* __restrict__ out) {
  __shared__ float tile[2][SPAN][PITCH];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
  const int from = blockIdx.x % GROUPS * SPAN;
  int chunk = blockIdx.x / GROUPS * PER;
  const int end = min(chunk + PER, CHUNKS);
  Windows next = fetch(x, chunk * 32 + warp * 8 + g, t);

  // Filters past the last one repeat it and are not stored.
  unsigned big[CHANNELS][TILES][2], rest[CHANNELS][TILES][2];
  float last[CHANNELS][TILES][2], shift[TILES][2];
#pragma unroll
  for (int n = 0; n < TILES; ++n)
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int column = min(from + n * 8 + g, FILTERS - 1), mine = min(from + n * 8 + 2 * t + i, FILTERS - 1);
      shift[n][i] = __ldg(bias + mine);
#pragma unroll
      for (int c = 0; c < CHANNELS; ++c) {
        split(__ldg(weight + ((column * CHANNELS + c) * 9 + t + 4 * i)), big[c][n][i], rest[c][n][i]);
        last[c][n][i] = __ldg(weight + ((mine * CHANNELS + c) * 9 + 8));
      }
    }

#pragma unroll 1
  for (int turn = 0; chunk < end; ++chunk, turn ^= 1) {
    const Windows now = next;
    if (chunk + 1 < end) next = fetch(x, chunk * 32 + 32 + warp * 8 + g, t);
    float best[TILES][2];
#pragma unroll
    for (int v = 0; v < 2; ++v) {
      float sum[TILES][4] = {};
#pragma unroll
      for (int c = 0; c < CHANNELS; ++c) {
        unsigned a[4], d[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) split(now.tap[c][v][i], a[i], d[i]);
#pragma unroll
        for (int n = 0; n < TILES; ++n) mma(sum[n], d, big[c][n]);
#pragma unroll
        for (int n = 0; n < TILES; ++n) mma(sum[n], a, rest[c][n]);
#pragma unroll
        for (int n = 0; n < TILES; ++n) mma(sum[n], a, big[c][n]);
      }
#pragma unroll
      for (int n = 0; n < TILES; ++n)
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          float left = sum[n][i], right = sum[n][2 + i];
#pragma unroll
          for (int c = 0; c < CHANNELS; ++c) {
            left = fmaf(now.ninth[c][v][0], last[c][n][i], left);
            right = fmaf(now.ninth[c][v][1], last[c][n][i], right);
          }
          const float more = most(left, right);
          best[n][i] = v ? most(best[n][i], more) : more;
        }
    }
#pragma unroll
    for (int n = 0; n < TILES; ++n)
#pragma unroll
      for (int i = 0; i < 2; ++i)
        tile[turn][n * 8 + 2 * t + i][warp * 8 + g] = most(best[n][i] + shift[n][i], 0.0f);
    __syncthreads();  // one is enough: the next turn writes the other tile
    const int at = chunk * 32 + lane;
    if (at < TOTAL) {
      float* const to = out + (at + at / PLACES * ((FILTERS - 1) * PLACES) + (from + warp) * PLACES);
#pragma unroll
      for (int i = 0; i < 2 * TILES; ++i)
        if (from + warp + 4 * i < FILTERS) to[4 * i * PLACES] = tile[turn][warp + 4 * i][lane];
    }
  }
}



























