// Both gradients as equally short sums by the same straight code: a warp has 32 columns and at most UNITS steps, and its
// lane k holds the k-th multiplier. Rows of x are shared by just as many warps as that takes; they meet in shared memory.
constexpr int STRIPS = (FEATURES + 31) / 32, SHARES = (ROWS + UNITS - 1) / UNITS;
constexpr int SURE = ROWS / SHARES;  // steps that every warp has; none has more than UNITS
constexpr unsigned WEIGHTS = UNITS * STRIPS;
static_assert(SHARES >= 2 && SURE <= UNITS && UNITS <= 32, "33 threads join, lanes hold the multipliers");

extern "C" __global__ void __launch_bounds__(32 * SHARES) backward(
    const float* __restrict__ grad_out, const float* __restrict__ weight, const float* __restrict__ x,
    float* __restrict__ grad_x, float* __restrict__ grad_weight, float* __restrict__ grad_bias) {
  __shared__ float parts[SHARES][33];
  const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const bool turned = blockIdx.x < WEIGHTS;  // grad_weight: a line is a unit, else a row
  const unsigned piece = turned ? blockIdx.x : (blockIdx.x - WEIGHTS) * SHARES + warp;
  const unsigned line = piece / STRIPS, strip = piece % STRIPS, col = strip * 32 + lane;
  const unsigned start = warp * ROWS / SHARES, safe = min(line, ROWS - 1u), from = min(col, FEATURES - 1u);
  const unsigned count = turned ? (warp + 1) * ROWS / SHARES - start : UNITS;
  const float* const right = (turned ? x + start * FEATURES : weight) + from;
  const unsigned place = turned ? (start + lane) * UNITS + line : safe * UNITS + lane;
  float held = 0.0f, r[UNITS];
  if (lane < count) held = grad_out[place];
#pragma unroll
  for (int k = 0; k < UNITS; ++k) {
    r[k] = 0.0f;
    if (k < SURE || k < count) r[k] = right[k * FEATURES];
  }
#if WARM
  asm volatile("prefetch.global.L2 [%0];" ::"l"((turned ? grad_weight + line * FEATURES : grad_x + safe * FEATURES) + from));
#endif
  float sum = 0.0f, total = 0.0f;
#pragma unroll
  for (int k = 0; k < UNITS; ++k) {
    const float l = __shfl_sync(0xffffffffu, held, k);
    sum += l * r[k];
    total += l;
  }
  if (!turned) {
    if (line < ROWS && col < FEATURES) grad_x[line * FEATURES + col] = sum;
    return;
  }
  parts[warp][lane] = sum;
  if (lane == 0) parts[warp][32] = total;
  __syncthreads();
  if (threadIdx.x < 33) {  // the 33rd has the bias
    float all = 0.0f;
#pragma unroll
    for (int w = 0; w < SHARES; ++w) all += parts[w][threadIdx.x];
    if (threadIdx.x < 32) {
      if (col < FEATURES) grad_weight[line * FEATURES + col] = all;
    } else if (strip == 0) {
      grad_bias[line] = all;
    }
  }
}

/* plan.py
import kw

# tunable: WARM = 0, 1

def ceil(a, b):
    return -(-a // b)

def plan(x, weight, bias, grad_out, grad_x, grad_weight, grad_bias):
    rows, features, units = x.size(0), x.size(1), weight.size(0)
    strips, shares = ceil(features, 32), ceil(rows, units)
    return kw.plan(
        kw.launch("backward", units * strips + ceil(rows * strips, shares), 32 * shares,
                  grad_out, weight, x, grad_x, grad_weight, grad_bias),
        definitions={"ROWS": rows, "FEATURES": features, "UNITS": units, "WARM": WARM})
*/
