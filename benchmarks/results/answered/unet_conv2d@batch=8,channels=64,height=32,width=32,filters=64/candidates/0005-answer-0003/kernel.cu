// 3x3 convolution by Winograd's F(2x2, 3x3): 2.25 times fewer products, as 16 small GEMMs (two for each warp) on tensor cores, three
// TF32 products for each float32 one, promoted every 16 channels; the block transforms filters and patches through shared memory.
constexpr int HW = HEIGHT * WIDTH, PITCH = WIDTH + 1;
constexpr int DOWN = (HEIGHT + 1) / 2, ACROSS = (WIDTH + 1) / 2, TILES = BATCH * DOWN * ACROSS;
constexpr int FT = 32, TT = 8 * FRAGS, FTILES = (FILTERS + FT - 1) / FT, STAGES = (CHANNELS + 15) / 16;
// A filter's 144 weights of 16 channels, and room for 3 more before them: 16-byte copies begin at a multiple of four.
constexpr int WP = 148, VECTORS = 37;
constexpr int UP = 16 * FT + 8, VP = 16 * TT + 8, MP = TT + 8;

__device__ __forceinline__ void copy16(float* to, const float* from, int bytes) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"((unsigned)__cvta_generic_to_shared(to)), "l"(from),
               "r"(bytes) : "memory");
}
__device__ __forceinline__ void copy4(float* to, const float* from, bool inside) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"((unsigned)__cvta_generic_to_shared(to)), "l"(from),
               "r"(inside ? 4 : 0) : "memory");
}
// The unit drops the low 13 bits; big is rounded, so that small has either sign and 12 bits.
__device__ __forceinline__ void split(float v, unsigned& big, unsigned& small) {
  big = (__float_as_uint(v) + 0x1000u) & 0xffffe000u;
  small = __float_as_uint(v - __uint_as_float(big));
}
__device__ __forceinline__ void mma(float (&c)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
  asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
// Where a tile's first pixel stands when a zero follows each row and a row of zeros each image. Where height or width is odd, the
// last tiles reach one further, into values that only outputs outside of the image see.
__device__ __forceinline__ int place(int tile) {
  const int row = tile / ACROSS;
  return (row / DOWN * (HEIGHT + 1) + row % DOWN * 2) * PITCH + tile % ACROSS * 2;
}

extern "C" __global__ void __launch_bounds__(256, (FRAGS > 2 ? 1 : 2)) convolve(
    const float* __restrict__ x,
    const float* __restrict__ weight,
    const float* __restrict__ bias,
    float* __restrict__ out) {
  extern __shared__ __align__(128) float shared[];
  float* const us = shared;          // [channel][position][filter], channels 8 banks apart
  float* const vs = us + 16 * UP;    // [channel][position][tile]
  float* const raw = vs + 16 * VP;   // [filter][weight]
  float* const xs = raw + FT * WP;   // [channel][place]
  const int tid = threadIdx.x, lane = tid % 32, warp = tid / 32, g = lane / 4, t = lane % 4;
  const int f0 = blockIdx.x % FTILES * FT, first = blockIdx.x / FTILES * TT;
  const int origin = place(first), start = origin - PITCH - 1;

  const auto load = [&](const int s) {
    for (int v = tid; v < FT * VECTORS; v += 256) {
      const int f = v / VECTORS, part = v % VECTORS;
      const int at = (((f0 + f) * CHANNELS + s * 16) * 9 & ~3) + part * 4, left = FILTERS * CHANNELS * 9 - at;
      copy16(raw + f * WP + part * 4, weight + (left > 0 ? at : 0), left > 4 ? 16 : left > 0 ? left * 4 : 0);
    }
    for (int j = tid % 128; j < X_SPAN; j += 128) {
      const int q = start + j, row = q / PITCH, col = q % PITCH, image = row / (HEIGHT + 1), y = row % (HEIGHT + 1);
      const bool inside = q >= 0 && col < WIDTH && y < HEIGHT && image < BATCH;
      const float* const from = x + (inside ? (image * CHANNELS * HEIGHT + y) * WIDTH + col : 0);
#pragma unroll
      for (int k = 0; k < 8; ++k) {
        const int c = tid / 128 + k * 2;
        const bool there = inside && s * 16 + c < CHANNELS;
        copy4(xs + c * X_PITCH + j, there ? from + (s * 16 + c) * HW : x, there);
      }
    }
    asm volatile("cp.async.commit_group;" ::: "memory");
  };

  float sum[2][2][FRAGS][4] = {};
  load(0);
  for (int s = 0; s < STAGES; ++s) {
    asm volatile("cp.async.wait_group 0;" ::: "memory");
    __syncthreads();
#pragma unroll
    for (int u = warp; u < 16; u += 8) {
      const int f = u % 4 * 8 + lane % 8, c = u / 4 * 4 + lane / 8;
      const float* const w = raw + f * WP + (f * CHANNELS & 3) + c * 9;
      float h[4][3];
#pragma unroll
      for (int k = 0; k < 3; ++k) {
        const float a = w[k], b = w[3 + k], d = w[6 + k];
        h[0][k] = a, h[1][k] = 0.5f * ((a + d) + b), h[2][k] = 0.5f * ((a + d) - b), h[3][k] = d;
      }
#pragma unroll
      for (int r = 0; r < 4; ++r) {
        float* const to = us + c * UP + r * 4 * FT + f;
        const float a = h[r][0], b = h[r][1], d = h[r][2];
        to[0] = a, to[FT] = 0.5f * ((a + d) + b), to[2 * FT] = 0.5f * ((a + d) - b), to[3 * FT] = d;
      }
    }
    for (int u = warp; u < 4 * FRAGS; u += 8) {
      const int tile = u % FRAGS * 8 + lane % 8, c = u / FRAGS * 4 + lane / 8;
      const float* const d = xs + c * X_PITCH + place(min(first + tile, TILES - 1)) - origin;
      float h[4][4];
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        const float d0 = d[k], d1 = d[PITCH + k], d2 = d[2 * PITCH + k], d3 = d[3 * PITCH + k];
        h[0][k] = d0 - d2, h[1][k] = d1 + d2, h[2][k] = d2 - d1, h[3][k] = d1 - d3;
      }
#pragma unroll
      for (int r = 0; r < 4; ++r) {
        float* const to = vs + c * VP + r * 4 * TT + tile;
        to[0] = h[r][0] - h[r][2], to[TT] = h[r][1] + h[r][2], to[2 * TT] = h[r][2] - h[r][1], to[3 * TT] = h[r][1] - h[r][3];
      }
    }
    __syncthreads();
    if (s + 1 < STAGES) load(s + 1);
#pragma unroll
    for (int q = 0; q < 2; ++q) {
      const int position = warp * 2 + q;
      float part[2][FRAGS][4] = {};
#pragma unroll
      for (int kk = 0; kk < 2; ++kk) {
        if (s * 16 + kk * 8 < CHANNELS) {
          const float* const a = us + (kk * 8 + t) * UP + position * FT + g;
          const float* const b = vs + (kk * 8 + t) * VP + position * TT + g;
          unsigned ab[2][4], as[2][4], bb[FRAGS][2], bs[FRAGS][2];
#pragma unroll
          for (int i = 0; i < 2; ++i)
#pragma unroll
            for (int e = 0; e < 4; ++e) split(a[i * 16 + e % 2 * 8 + e / 2 * 4 * UP], ab[i][e], as[i][e]);
#pragma unroll
          for (int j = 0; j < FRAGS; ++j)
#pragma unroll
            for (int e = 0; e < 2; ++e) split(b[j * 8 + e * 4 * VP], bb[j][e], bs[j][e]);
#pragma unroll
          for (int j = 0; j < FRAGS; ++j)
#pragma unroll
            for (int i = 0; i < 2; ++i) mma(part[i][j], as[i], bb[j]);
#pragma unroll
          for (int j = 0; j < FRAGS; ++j)
#pragma unroll
            for (int i = 0; i < 2; ++i) mma(part[i][j], ab[i], bs[j]);
#pragma unroll
          for (int j = 0; j < FRAGS; ++j)
#pragma unroll
            for (int i = 0; i < 2; ++i) mma(part[i][j], ab[i], bb[j]);
        }
      }
#pragma unroll
      for (int i = 0; i < 2; ++i)
#pragma unroll
        for (int j = 0; j < FRAGS; ++j)
#pragma unroll
          for (int e = 0; e < 4; ++e) sum[q][i][j][e] += part[i][j][e];
    }
  }

  __syncthreads();
#pragma unroll
  for (int q = 0; q < 2; ++q)
#pragma unroll
    for (int i = 0; i < 2; ++i)
#pragma unroll
      for (int j = 0; j < FRAGS; ++j) {
        float* const to = shared + ((warp * 2 + q) * FT + i * 16 + g) * MP + j * 8 + 2 * t;
        *reinterpret_cast<float2*>(to) = make_float2(sum[q][i][j][0], sum[q][i][j][1]);
        *reinterpret_cast<float2*>(to + 8 * MP) = make_float2(sum[q][i][j][2], sum[q][i][j][3]);
      }
  __syncthreads();
  for (int k = tid; k < FT * TT; k += 256) {
    const int f = k / TT, tile = first + k % TT;
    if (f0 + f >= FILTERS || tile >= TILES) continue;
    const float* const m = shared + f * MP + k % TT;
    const float b = bias[f0 + f];
    float h[2][4];
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const float m0 = m[j * FT * MP], m1 = m[(4 + j) * FT * MP], m2 = m[(8 + j) * FT * MP], m3 = m[(12 + j) * FT * MP];
      h[0][j] = m0 + m1 + m2, h[1][j] = m1 - m2 - m3;
    }
    const int row = tile / ACROSS, col = tile % ACROSS * 2;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int y = row % DOWN * 2 + r;
      if (y < HEIGHT) {
        float* const to = out + ((row / DOWN * FILTERS + f0 + f) * HEIGHT + y) * WIDTH + col;
        const float left = h[r][0] + h[r][1] + h[r][2] + b, right = h[r][1] - h[r][2] - h[r][3] + b;
        if (WIDTH % 2 == 0) {
          *reinterpret_cast<float2*>(to) = make_float2(left, right);
        } else {
          to[0] = left;
          if (col + 1 < WIDTH) to[1] = right;
        }
      }
    }
  }
}































