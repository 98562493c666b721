// One warp, one piece: a unit's STRIP weights with PARTS lanes sharing the rows, or STRIP columns of PARTS rows of grad_x,
// by the same straight code without a barrier; ACROSS lanes load and mask the multipliers for each other.
#if VECTOR == 4
using Vector = float4;
#elif VECTOR == 2
using Vector = float2;
#else
using Vector = float;
#endif
constexpr int PARTS = 32 / ACROSS, STRIP = ACROSS * COLUMNS, PIECES = COLUMNS / VECTOR, APART = ACROSS * VECTOR;
constexpr int STRIPS = (FEATURES + STRIP - 1) / STRIP, MOST = (ROWS + PARTS - 1) / PARTS;
constexpr int DEPTH = UNITS > MOST ? UNITS : MOST, SURE = UNITS < ROWS / PARTS ? UNITS : ROWS / PARTS;
constexpr int HELD = (DEPTH + ACROSS - 1) / ACROSS;
constexpr unsigned WORK = STRIPS * (UNITS + MOST);
static_assert(COLUMNS <= PARTS, "lanes that share the rows end with one column each");

extern "C" __global__ void __launch_bounds__(32 * WARPS) backward(
    const float* __restrict__ grad_out, const float* __restrict__ saved_out, const float* __restrict__ weight,
    const float* __restrict__ x, float* __restrict__ grad_x, float* __restrict__ grad_weight,
    float* __restrict__ grad_bias) {
  const unsigned job = WARPS > 1 ? blockIdx.x * WARPS + threadIdx.x / 32 : blockIdx.x;
  if (WARPS > 1 && job >= WORK) return;
  const unsigned lane = threadIdx.x % 32, part = lane / ACROSS, line = job / STRIPS, strip = job % STRIPS;
  const unsigned first = strip * STRIP + lane % ACROSS * VECTOR;  // further vectors of a lane: APART
  const bool turned = line < UNITS;                               // grad_weight
  const unsigned start = part * ROWS / PARTS, row = (line - UNITS) * PARTS + part, safe = min(row, ROWS - 1u);
  const unsigned count = turned ? (part + 1) * ROWS / PARTS - start : UNITS, step = turned ? UNITS : 1;
  const unsigned begin = turned ? start * UNITS + line : safe * UNITS;
  const float* const right = turned ? x + start * FEATURES : weight;
  float* const out = turned ? grad_weight + line * FEATURES : grad_x + safe * FEATURES;
  unsigned from[PIECES];
#pragma unroll
  for (int p = 0; p < PIECES; ++p) from[p] = min(first + p * APART, unsigned(FEATURES - VECTOR));

  float held[HELD], saved[HELD];
  alignas(16) float r[DEPTH][COLUMNS];
#pragma unroll
  for (int i = 0; i < HELD; ++i) {
    const unsigned k = i * ACROSS + lane % ACROSS;
    held[i] = saved[i] = 0.0f;
    if ((i + 1) * ACROSS <= SURE || k < count) {
      saved[i] = saved_out[begin + k * step];
      held[i] = grad_out[begin + k * step];
    }
  }
#pragma unroll
  for (int k = 0; k < DEPTH; ++k) {
#pragma unroll
    for (int j = 0; j < COLUMNS; ++j) r[k][j] = 0.0f;
    if (k < SURE || k < count) {
#pragma unroll
      for (int p = 0; p < PIECES; ++p)
        *reinterpret_cast<Vector*>(&r[k][p * VECTOR]) =
            *reinterpret_cast<const Vector*>(right + k * FEATURES + from[p]);
    }
  }
#if WARM
  asm volatile("prefetch.global.L2 [%0];" ::"l"(out + from[0]));
#endif
#pragma unroll
  for (int i = 0; i < HELD; ++i) held[i] = saved[i] > 0.0f ? held[i] : 0.0f;
  alignas(16) float sum[COLUMNS] = {};
#pragma unroll
  for (int k = 0; k < DEPTH; ++k) {
    const float l = __shfl_sync(0xffffffffu, held[k / ACROSS], k % ACROSS, ACROSS);
#pragma unroll
    for (int j = 0; j < COLUMNS; ++j) sum[j] += l * r[k][j];
  }
  if (!turned) {
#pragma unroll
    for (int p = 0; p < PIECES; ++p)
      if (row < ROWS && first + p * APART < FEATURES)
        *reinterpret_cast<Vector*>(out + first + p * APART) = *reinterpret_cast<const Vector*>(&sum[p * VECTOR]);
    return;
  }
  // Lanes swap halves of their columns as long as they have several, then add up; the bias is the sum of what is held.
  float total = held[0];
#pragma unroll
  for (int i = 1; i < HELD; ++i) total += held[i];
  unsigned at = 0;
#pragma unroll
  for (int i = 0; i < 5; ++i) {
    const int far = 16 >> i, half = COLUMNS >> (i + 1);
    total += __shfl_xor_sync(0xffffffffu, total, far);
    if (far < ACROSS) continue;
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
  }
  const unsigned col = first + at / VECTOR * APART + at % VECTOR;
  if ((lane & (32 / COLUMNS - ACROSS)) == 0 && col < FEATURES) out[col] = sum[0];
  if (strip == 0 && lane == 0) grad_bias[line] = total;
}

























