// 3x3 convolution as a tiled product in plain float32: a thread sums 4 filters times TR runs of 4 pixels of a row in registers.
// Channels are split over four pairs of warps of a block, which are joined in shared memory; stages of 8 channels arrive by cp.async.
constexpr int HW = HEIGHT * WIDTH;
constexpr int FT = 4 * F_GROUPS, LANES = 32 / F_GROUPS, RT = 2 * LANES * TR, PT = 4 * RT, FP = FT + 4;
constexpr int RUNS = (WIDTH + 3) / 4, TOTAL = BATCH * HEIGHT * RUNS, SP = 4 * RUNS + 4, XC = X_ROWS * SP;
constexpr int STAGE = 72 * FP + 8 * XC, STAGES = (CHANNELS + 7) / 8, FTILES = (FILTERS + FT - 1) / FT;

__device__ __forceinline__ void copy4(float* to, const float* from, bool inside) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"((unsigned)__cvta_generic_to_shared(to)), "l"(from),
               "r"(inside ? 4 : 0) : "memory");
}

// The row of a run when a row of zeros follows each image.
__device__ __forceinline__ int padded_row(int run) {
  const int row = run / RUNS;
  return row + row / HEIGHT;
}

extern "C" __global__ void __launch_bounds__(256, 2) convolve(
    const float* __restrict__ x,
    const float* __restrict__ weight,
    const float* __restrict__ bias,
    float* __restrict__ out) {
  extern __shared__ __align__(128) float shared[];
  const int tid = threadIdx.x, lane = tid % 32, warp = tid / 32;
  const int group = warp / 2, fg = lane / LANES, pl = lane % LANES;
  const int f0 = blockIdx.x % FTILES * FT, r0 = blockIdx.x / FTILES * RT;
  const int first = padded_row(r0);

  const auto load = [&](const int s) {
    float* const w = shared + s % 2 * STAGE;
    float* const xs = w + 72 * FP;
    // 8 weights of 4 filters for each warp: whole sectors, and 32 different banks.
    for (int u = warp; u < 9 * FT / 4; u += 8) {
      const int k = u % 9 * 8 + lane % 8, f = u / 9 * 4 + lane / 8;
      const bool inside = f0 + f < FILTERS && s * 72 + k < CHANNELS * 9;
      copy4(w + k * FP + f, inside ? weight + (f0 + f) * CHANNELS * 9 + s * 72 + k : weight, inside);
    }
    for (int e = tid % 128; e < XC; e += 128) {
      const int row = first - 1 + e / SP, col = e % SP - 1, image = row / (HEIGHT + 1), y = row % (HEIGHT + 1);
      const bool inside = row >= 0 && image < BATCH && y < HEIGHT && col >= 0 && col < WIDTH;
      const float* const from = x + (inside ? (image * CHANNELS * HEIGHT + y) * WIDTH + col : 0);
      for (int c = tid / 128; c < 8; c += 2) {
        const bool there = inside && s * 8 + c < CHANNELS;
        copy4(xs + c * XC + e, there ? from + (s * 8 + c) * HW : x, there);
      }
    }
    asm volatile("cp.async.commit_group;" ::: "memory");
  };

  int base[TR];
#pragma unroll
  for (int i = 0; i < TR; ++i) {
    const int run = min(r0 + warp % 2 * (LANES * TR) + i * LANES + pl, TOTAL - 1);
    base[i] = (padded_row(run) - first) * SP + run % RUNS * 4;
  }
  float sum[TR][4][4] = {};  // run, filter, pixel

  load(0);
  for (int s = 0; s < STAGES; ++s) {
    if (s + 1 < STAGES) {
      load(s + 1);
      asm volatile("cp.async.wait_group 1;" ::: "memory");
    } else {
      asm volatile("cp.async.wait_group 0;" ::: "memory");
    }
    __syncthreads();
#pragma unroll
    for (int cc = 0; cc < 2; ++cc) {
      if (s * 8 + group * 2 + cc < CHANNELS) {
        const float* const w = shared + s % 2 * STAGE + (group * 2 + cc) * 9 * FP + fg * 4;
        const float* const xs = shared + s % 2 * STAGE + 72 * FP + (group * 2 + cc) * XC;
#pragma unroll
        for (int ky = 0; ky < 3; ++ky) {
          float v[TR][6];
#pragma unroll
          for (int i = 0; i < TR; ++i) {
            const float4 a = *reinterpret_cast<const float4*>(xs + base[i] + ky * SP);
            const float2 b = *reinterpret_cast<const float2*>(xs + base[i] + ky * SP + 4);
            v[i][0] = a.x, v[i][1] = a.y, v[i][2] = a.z, v[i][3] = a.w, v[i][4] = b.x, v[i][5] = b.y;
          }
#pragma unroll
          for (int kx = 0; kx < 3; ++kx) {
            const float4 u = *reinterpret_cast<const float4*>(w + (ky * 3 + kx) * FP);
#pragma unroll
            for (int i = 0; i < TR; ++i)
#pragma unroll
              for (int e = 0; e < 4; ++e) {
                sum[i][0][e] += v[i][kx + e] * u.x;
                sum[i][1][e] += v[i][kx + e] * u.y;
                sum[i][2][e] += v[i][kx + e] * u.z;
                sum[i][3][e] += v[i][kx + e] * u.w;
              }
          }
        }
      }
    }
    __syncthreads();
  }

  // Runs are permuted within each filter, so that neither writing nor reading meets a bank twice.
#pragma unroll
  for (int i = 0; i < TR; ++i)
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const int run = (warp % 2 * (LANES * TR) + i * LANES + pl) ^ (fg * LANES & (RT - 1));
      *reinterpret_cast<float4*>(shared + (group * FT + fg * 4 + e) * PT + run * 4) =
          make_float4(sum[i][e][0], sum[i][e][1], sum[i][e][2], sum[i][e][3]);
    }
  __syncthreads();
  for (int k = tid; k < FT * RT; k += 256) {
    const int f = k / RT, at = k % RT, run = r0 + at;
    if (f0 + f >= FILTERS || run >= TOTAL) continue;
    const float b = bias[f0 + f];
    float4 v = make_float4(b, b, b, b);
#pragma unroll
    for (int q = 0; q < 4; ++q) {
      const float4 p = *reinterpret_cast<const float4*>(shared + (q * FT + f) * PT + (at ^ (f / 4 * LANES & (RT - 1))) * 4);
      v.x += p.x, v.y += p.y, v.z += p.z, v.w += p.w;
    }
    const int row = run / RUNS, col = run % RUNS * 4;
    float* const to = out + ((row / HEIGHT * FILTERS + f0 + f) * HEIGHT + row % HEIGHT) * WIDTH + col;
    if (WIDTH % 4 == 0) {
      *reinterpret_cast<float4*>(to) = v;
    } else {
      to[0] = v.x;
      if (col + 1 < WIDTH) to[1] = v.y;
      if (col + 2 < WIDTH) to[2] = v.z;
      if (col + 3 < WIDTH) to[3] = v.w;
    }
  }
}


































