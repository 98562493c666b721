// One warp, one block, one piece: a unit's STRIP weights with PARTS lanes sharing the rows, or STRIP columns of PARTS rows
// of grad_x. Both are sums of left[k * step] * right[k * FEATURES] in the same straight code, without any barrier.
#if VECTOR == 4
using Vector = float4;
#elif VECTOR == 2
using Vector = float2;
#else
using Vector = float;
#endif
constexpr int PARTS = 32 / ACROSS, STRIP = ACROSS * COLUMNS, PIECES = COLUMNS / VECTOR;
constexpr int STAGES = ACROSS == 2 ? 4 : ACROSS == 4 ? 3 : 2;
constexpr int STRIPS = (FEATURES + STRIP - 1) / STRIP, MOST = (ROWS + PARTS - 1) / PARTS;
constexpr int DEPTH = UNITS > MOST ? UNITS : MOST, SURE = UNITS < ROWS / PARTS ? UNITS : ROWS / PARTS;
constexpr unsigned WORK = STRIPS * (UNITS + MOST);
static_assert((1 << STAGES) == PARTS && COLUMNS <= PARTS, "lanes that share the rows end with one column each");

extern "C" __global__ void __launch_bounds__(32 * WARPS) backward(
    const float* __restrict__ grad_out, const float* __restrict__ weight, const float* __restrict__ x,
    float* __restrict__ grad_x, float* __restrict__ grad_weight, float* __restrict__ grad_bias) {
  const unsigned job = WARPS > 1 ? blockIdx.x * WARPS + threadIdx.x / 32 : blockIdx.x;
  if (WARPS > 1 && job >= WORK) return;
  const unsigned lane = threadIdx.x % 32, part = lane / ACROSS, line = job / STRIPS, strip = job % STRIPS;
  const unsigned first = strip * STRIP + lane % ACROSS * VECTOR;  // further vectors of a lane: ACROSS vectors apart
  const bool turned = line < UNITS;                               // grad_weight
  const unsigned start = part * ROWS / PARTS, row = (line - UNITS) * PARTS + part, safe = min(row, ROWS - 1u);
  const unsigned count = turned ? (part + 1) * ROWS / PARTS - start : UNITS, step = turned ? UNITS : 1;
  const float* const left = grad_out + (turned ? start * UNITS + line : safe * UNITS);
  const float* const right = turned ? x + start * FEATURES : weight;
  float* const out = turned ? grad_weight + line * FEATURES : grad_x + safe * FEATURES;
  unsigned from[PIECES];
#pragma unroll
  for (int p = 0; p < PIECES; ++p) from[p] = min(first + p * ACROSS * VECTOR, unsigned(FEATURES - VECTOR));

  float l[DEPTH];
  alignas(16) float r[DEPTH][COLUMNS];
#pragma unroll
  for (int k = 0; k < DEPTH; ++k) {
    l[k] = 0.0f;
#pragma unroll
    for (int j = 0; j < COLUMNS; ++j) r[k][j] = 0.0f;
    if (k < SURE || k < count) {
#pragma unroll
      for (int p = 0; p < PIECES; ++p)
        *reinterpret_cast<Vector*>(&r[k][p * VECTOR]) =
            *reinterpret_cast<const Vector*>(right + k * FEATURES + from[p]);
      l[k] = left[k * step];
    }
  }
#if WARM
  asm volatile("prefetch.global.L2 [%0];" ::"l"(out + from[0]));
#endif
  alignas(16) float sum[COLUMNS] = {};
  float total = 0.0f;
#pragma unroll
  for (int k = 0; k < DEPTH; ++k) {
#pragma unroll
    for (int j = 0; j < COLUMNS; ++j) sum[j] += l[k] * r[k][j];
    total += l[k];
  }
  if (!turned) {
#pragma unroll
    for (int p = 0; p < PIECES; ++p)
      if (row < ROWS && first + p * ACROSS * VECTOR < FEATURES)
        *reinterpret_cast<Vector*>(out + first + p * ACROSS * VECTOR) = *reinterpret_cast<const Vector*>(&sum[p * VECTOR]);
    return;
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
  const unsigned col = first + at / VECTOR * (ACROSS * VECTOR) + at % VECTOR;
  if ((lane & (32 / COLUMNS - ACROSS)) == 0 && col < FEATURES) out[col] = sum[0];
  if (strip == 0 && lane == 0) grad_bias[line] = total;
}
























