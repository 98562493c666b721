// A lane loads the patches of two windows straight into registers while the block's weights come to shared memory by cp.async;
// the barrier waits for the weights alone. Then a short rolled loop over filters: 3 broadcast loads for 72 FMAs and 2 full-line stores.
constexpr unsigned DOWN = (HEIGHT - 2) / 2, ACROSS = (WIDTH - 2) / 2, PLACES = DOWN * ACROSS, TOTAL = BATCH * PLACES;
constexpr int PLANE = HEIGHT * WIDTH, THREADS = 32 * TEAMS, SLICE = TEAMS * GROUP;

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
__device__ __forceinline__ void copy4(float* to, const float* from) {
  const unsigned shared = static_cast<unsigned>(__cvta_generic_to_shared(to));
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(shared), "l"(from) : "memory");
}
// Rows of even width keep every patch on 8 bytes.
__device__ __forceinline__ float2 two(const float* from) {
  if (WIDTH % 2 == 0) return __ldg(reinterpret_cast<const float2*>(from));
  return make_float2(__ldg(from), __ldg(from + 1));
}

extern "C" __global__ void __launch_bounds__(THREADS) conv(
    const float* __restrict__ x,
    const float* __restrict__ weight,
    const float* __restrict__ bias,
    float* __restrict__ out) {
  __shared__ __align__(16) float taps[SLICE * CHANNELS * 12];  // per filter and channel nine weights; behind those of channel 0 the bias
  const int tid = threadIdx.x, warp = tid / 32, lane = tid % 32;
  const int from = blockIdx.x % SLICES * SLICE, filters = min(SLICE, FILTERS - from);
  for (int i = tid; i < filters * CHANNELS * 9; i += THREADS)
    copy4(taps + i / 9 * 12 + i % 9, weight + from * CHANNELS * 9 + i);
  for (int i = tid; i < filters; i += THREADS) copy4(taps + i * CHANNELS * 12 + 9, bias + from + i);

  const unsigned first = blockIdx.x / SLICES * 64 + lane;
  float patch[2][CHANNELS][4][4];
  float* to[2];
#pragma unroll
  for (int p = 0; p < 2; ++p) {
    const unsigned at = min(first + 32u * p, TOTAL - 1u), b = at / PLACES, place = at % PLACES;
    const float* const corner = x + (b * CHANNELS * PLANE + place / ACROSS * 2 * WIDTH + place % ACROSS * 2);
#pragma unroll
    for (int c = 0; c < CHANNELS; ++c)
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        const float2 v = two(corner + (c * PLANE + i / 2 * WIDTH + i % 2 * 2));
        patch[p][c][i / 2][i % 2 * 2] = v.x;
        patch[p][c][i / 2][i % 2 * 2 + 1] = v.y;
      }
    to[p] = out + ((b * FILTERS + from + warp * GROUP) * PLACES + place);
  }
  asm volatile("cp.async.wait_all;" ::: "memory");
  __syncthreads();

  const float* w = taps + warp * GROUP * CHANNELS * 12;
  const int count = min(GROUP, filters - warp * GROUP);
#pragma unroll 1
  for (int f = 0; f < count; ++f, w += CHANNELS * 12) {
    float k[CHANNELS * 12];
#pragma unroll
    for (int i = 0; i < CHANNELS * 3; ++i) {
      const float4 v = *reinterpret_cast<const float4*>(w + 4 * i);
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
      if (first + 32u * p < TOTAL) *to[p] = best[p];
      to[p] += PLACES;
    }
  }
}

/* plan.py
import kw

# tunable: TEAMS = 2, 4, 3

def ceil(a, b):
    return -(-a // b)

def plan(x, weight, bias, out):
    batch, channels, height, width = x.shape
    filters = weight.shape[0]
    chunks = ceil(batch * ((height - 2) // 2) * ((width - 2) // 2), 64)
    lines = channels * (80 if width % 2 == 0 else 160)

    def cost(slices):
        # Warps of the fullest scheduler, times what one of them issues or what its loads take.
        group = ceil(filters, TEAMS * slices)
        warps = ceil(ceil(chunks * slices, kw.device.multiprocessors) * TEAMS, 4)
        return warps * max(120 + 32 * channels + group * (75 * channels + 11), 4 * (lines + group * (12 * channels + 4)))

    group = ceil(filters, TEAMS * min(range(1, 33), key=cost))
    slices = ceil(filters, TEAMS * group)
    definitions = {
        "BATCH": batch, "CHANNELS": channels, "HEIGHT": height, "WIDTH": width, "FILTERS": filters,
        "TEAMS": TEAMS, "GROUP": group, "SLICES": slices,
    }
    return kw.plan(kw.launch("conv", chunks * slices, 32 * TEAMS, x, weight, bias, out), definitions=definitions)
*/
