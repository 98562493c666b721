// A block takes 64 windows in a row (across images) and a slice of the filters. The rows of x under them come by 16-byte asynchronous
// copies, the weights with them; a lane keeps the patches of two windows in registers and walks through the filters of its warp.
constexpr int DOWN = (HEIGHT - 2) / 2, ACROSS = (WIDTH - 2) / 2, PLACES = DOWN * ACROSS, TOTAL = BATCH * PLACES;
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

extern "C" __global__ void __launch_bounds__(THREADS) conv(
    const float* __restrict__ x,
    const float* __restrict__ weight,
    const float* __restrict__ bias,
    float* __restrict__ out) {
  extern __shared__ __align__(16) float arena[];  // [SLOTS][SEGMENT] of x, one slot for each plane that is touched
  float* const taps = arena + SLOTS * SEGMENT;    // [SLICE][CHANNELS][12]: nine weights, and the bias behind those of channel 0
  const int tid = threadIdx.x, warp = tid / 32, lane = tid % 32;
  const int start = blockIdx.x / SLICES * 64, last = min(start + 63, TOTAL - 1);
  const int from = blockIdx.x % SLICES * SLICE, filters = min(SLICE, FILTERS - from);
  const int b0 = start / PLACES, b1 = last / PLACES;
  const int top = (start - b0 * PLACES) / ACROSS * 2, bottom = (last - b1 * PLACES) / ACROSS * 2 + 4;

  for (int s = 0; s < (b1 - b0 + 1) * CHANNELS; ++s) {
    const int b = b0 + s / CHANNELS, plane = (b0 * CHANNELS + s) * PLANE;
    const int low = (plane + (b == b0 ? top * WIDTH : 0)) & ~3;
    const int high = plane + (b == b1 ? bottom : 2 * DOWN + 2) * WIDTH;
    for (int i = low + 4 * tid; i < high; i += 4 * THREADS)
      copy16(arena + s * SEGMENT + (i - low), x + i, 4 * min(4, high - i));
  }
  for (int i = tid; i < filters * CHANNELS * 9; i += THREADS)
    copy4(taps + i / 9 * 12 + i % 9, weight + from * CHANNELS * 9 + i);
  for (int i = tid; i < filters; i += THREADS) copy4(taps + i * CHANNELS * 12 + 9, bias + from + i);

  int spot[2][CHANNELS];
  float* to[2];
#pragma unroll
  for (int p = 0; p < 2; ++p) {
    const int at = min(start + 32 * p + lane, TOTAL - 1), b = at / PLACES, place = at % PLACES;
#pragma unroll
    for (int c = 0; c < CHANNELS; ++c) {
      const int plane = (b * CHANNELS + c) * PLANE, low = (plane + (b == b0 ? top * WIDTH : 0)) & ~3;
      spot[p][c] = ((b - b0) * CHANNELS + c) * SEGMENT + plane - low + place / ACROSS * 2 * WIDTH + place % ACROSS * 2;
    }
    to[p] = out + ((b * FILTERS + from + warp * GROUP) * PLACES + place);
  }
  const bool inside[2] = {start + lane < TOTAL, start + 32 + lane < TOTAL};
  asm volatile("cp.async.wait_all;" ::: "memory");
  __syncthreads();

  float patch[2][CHANNELS][4][4];
#pragma unroll
  for (int p = 0; p < 2; ++p)
#pragma unroll
    for (int c = 0; c < CHANNELS; ++c)
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        const float2 v = two(arena + spot[p][c] + i / 2 * WIDTH + i % 2 * 2);
        patch[p][c][i / 2][i % 2 * 2] = v.x;
        patch[p][c][i / 2][i % 2 * 2 + 1] = v.y;
      }

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
      if (inside[p]) *to[p] = best[p];
      to[p] += PLACES;
    }
  }
}

/* plan.py
import kw

# tunable: TEAMS = 4, 2, 8

def ceil(a, b):
    return -(-a // b)

def plan(x, weight, bias, out):
    batch, channels, height, width = x.shape
    filters = weight.shape[0]
    down, across = (height - 2) // 2, (width - 2) // 2
    chunks = ceil(batch * down * across, 64)
    # 64 windows in a row touch at most so many rows of windows, and so many images.
    rows = min(ceil(63, across) + 1, down)
    slots = (ceil(63, down * across) + 1) * channels
    segment = ceil((2 * rows + 2) * width + 3, 4) * 4
    words = channels * (32 if width % 2 == 0 else 64)

    def cost(slices):
        # Warps of the fullest scheduler, times what one of them issues or what the loads from shared memory take.
        group = ceil(filters, TEAMS * slices)
        warps = ceil(ceil(chunks * slices, kw.device.multiprocessors) * TEAMS, 4)
        return warps * max(150 + words + group * (75 * channels + 11), 4 * (words + group * (12 * channels + 4)))

    group = ceil(filters, TEAMS * min(range(1, 17), key=cost))
    slices = ceil(filters, TEAMS * group)
    definitions = {
        "BATCH": batch, "CHANNELS": channels, "HEIGHT": height, "WIDTH": width, "FILTERS": filters,
        "TEAMS": TEAMS, "GROUP": group, "SLICES": slices, "SLOTS": slots, "SEGMENT": segment,
    }
    shared = 4 * (slots * segment + TEAMS * group * channels * 12)
    return kw.plan(kw.launch("conv", chunks * slices, 32 * TEAMS, x, weight, bias, out, shared=shared), definitions=definitions)
*/
