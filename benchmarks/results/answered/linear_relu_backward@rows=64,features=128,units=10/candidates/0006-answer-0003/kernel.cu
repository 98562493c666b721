// One warp, one piece: a unit's STRIP weights with PARTS lanes sharing the rows, or STRIP columns of PARTS rows of grad_x,
// each by code of its own with all offsets known to the compiler, vector loads, shuffles and no barrier.
template <int Width>
struct Of;
template <>
struct Of<1> { using type = float; };
template <>
struct Of<2> { using type = float2; };
template <>
struct Of<4> { using type = float4; };
template <int Width>
__device__ __forceinline__ void copy(float* to, const float* from) {
  using Whole = typename Of<Width>::type;
  *reinterpret_cast<Whole*>(to) = *reinterpret_cast<const Whole*>(from);
}

constexpr int PARTS = 32 / ACROSS, STRIP = ACROSS * COLUMNS, PIECES = COLUMNS / VECTOR, APART = ACROSS * VECTOR;
constexpr int STAGES = ACROSS == 2 ? 4 : ACROSS == 4 ? 3 : 2;
constexpr int STRIPS = (FEATURES + STRIP - 1) / STRIP, MOST = (ROWS + PARTS - 1) / PARTS;
constexpr unsigned WORK = STRIPS * (UNITS + MOST);
static_assert((1 << STAGES) == PARTS && COLUMNS <= PARTS, "lanes that share the rows end with one column each");

extern "C" __global__ void __launch_bounds__(32 * WARPS) backward(
    const float* __restrict__ grad_out, const float* __restrict__ saved_out, const float* __restrict__ weight,
    const float* __restrict__ x, float* __restrict__ grad_x, float* __restrict__ grad_weight,
    float* __restrict__ grad_bias) {
  const unsigned job = WARPS > 1 ? blockIdx.x * WARPS + threadIdx.x / 32 : blockIdx.x;
  if (WARPS > 1 && job >= WORK) return;
  const unsigned lane = threadIdx.x % 32, part = lane / ACROSS, line = job / STRIPS, strip = job % STRIPS;
  const unsigned first = strip * STRIP + lane % ACROSS * VECTOR;  // further vectors of a lane: APART
  unsigned from[PIECES];
#pragma unroll
  for (int p = 0; p < PIECES; ++p) from[p] = min(first + p * APART, unsigned(FEATURES - VECTOR));
  alignas(16) float sum[COLUMNS] = {};

  if (line < UNITS) {
    const unsigned start = part * ROWS / PARTS;
    const bool longer = (part + 1) * ROWS / PARTS - start == MOST;
    const float* const left = grad_out + start * UNITS + line;
    const float* const saved = saved_out + start * UNITS + line;
    const float* const right = x + start * FEATURES;
    float* const out = grad_weight + line * FEATURES;
    float l[MOST], s[MOST];
    alignas(16) float r[MOST][COLUMNS];
#pragma unroll
    for (int k = 0; k < MOST; ++k) {
      l[k] = s[k] = 0.0f;
#pragma unroll
      for (int j = 0; j < COLUMNS; ++j) r[k][j] = 0.0f;
      if (k < ROWS / PARTS || longer) {
#pragma unroll
        for (int p = 0; p < PIECES; ++p) copy<VECTOR>(&r[k][p * VECTOR], right + k * FEATURES + from[p]);
        s[k] = saved[k * UNITS];
        l[k] = left[k * UNITS];
      }
    }
#if WARM
    asm volatile("prefetch.global.L2 [%0];" ::"l"(out + from[0]));
#endif
    float total = 0.0f;
#pragma unroll
    for (int k = 0; k < MOST; ++k) {
      const float g = s[k] > 0.0f ? l[k] : 0.0f;
#pragma unroll
      for (int j = 0; j < COLUMNS; ++j) sum[j] += g * r[k][j];
      total += g;
    }
    // Lanes swap halves of their columns as long as they have several, then add up.
    unsigned at = 0;
#pragma unroll
    for (int i = 0; i < STAGES; ++i) {
      const int far = 16 >> i, half = COLUMNS >> (i + 1);
      if (half > 0) {
        const bool up = (lane & far) != 0;
#pragma unroll
        for (int j = 0; j < half; ++j) {
          const float kept = up ? sum[j + half] : sum[j], given = up ? sum[j] : sum[j + half];
          sum[j] = kept + __shfl_xor_sync(0xffffffffu, given, far);
        }
        at += up ? half : 0;
      } else {
        sum[0] += __shfl_xor_sync(0xffffffffu, sum[0], far);
      }
      total += __shfl_xor_sync(0xffffffffu, total, far);
    }
    const unsigned col = first + at / VECTOR * APART + at % VECTOR;
    if ((lane & (32 / COLUMNS - ACROSS)) == 0 && col < FEATURES) out[col] = sum[0];
    if (strip == 0 && lane == 0) grad_bias[line] = total;
    return;
  }

  const unsigned row = (line - UNITS) * PARTS + part;
  if (row >= ROWS) return;
  const float* const left = grad_out + row * UNITS;
  const float* const saved = saved_out + row * UNITS;
  float* const out = grad_x + row * FEATURES;
  alignas(16) float l[UNITS];
  alignas(16) float s[UNITS];
  alignas(16) float r[UNITS][COLUMNS];
#pragma unroll
  for (int k = 0; k < UNITS; k += LEFT) {
    copy<LEFT>(&s[k], saved + k);
    copy<LEFT>(&l[k], left + k);
  }
#pragma unroll
  for (int k = 0; k < UNITS; ++k)
#pragma unroll
    for (int p = 0; p < PIECES; ++p) copy<VECTOR>(&r[k][p * VECTOR], weight + k * FEATURES + from[p]);
#if WARM
  asm volatile("prefetch.global.L2 [%0];" ::"l"(out + from[0]));
#endif
#pragma unroll
  for (int k = 0; k < UNITS; ++k) {
    const float g = s[k] > 0.0f ? l[k] : 0.0f;
#pragma unroll
    for (int j = 0; j < COLUMNS; ++j) sum[j] += g * r[k][j];
  }
#pragma unroll
  for (int p = 0; p < PIECES; ++p)
    if (first + p * APART < FEATURES) copy<VECTOR>(out + first + p * APART, &sum[p * VECTOR]);
}




























