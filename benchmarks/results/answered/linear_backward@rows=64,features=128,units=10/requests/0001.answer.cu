// A thread for an element of grad_x; a block for 32 elements of grad_weight, whose warps share the rows and sum the bias
// on the way. Small blocks of one launch, every load of a thread in flight before its first product.
constexpr int STRIPS = (FEATURES + 31) / 32, DEEP = (ROWS + WARPS - 1) / WARPS;
constexpr unsigned WEIGHTS = UNITS * STRIPS, ELEMENTS = ROWS * FEATURES;

extern "C" __global__ void __launch_bounds__(32 * WARPS) backward(
    const float* __restrict__ grad_out, const float* __restrict__ x, const float* __restrict__ weight,
    float* __restrict__ grad_x, float* __restrict__ grad_weight, float* __restrict__ grad_bias) {
  if (blockIdx.x < WEIGHTS) {
    __shared__ float parts[WARPS][33];
    const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const unsigned unit = blockIdx.x / STRIPS, strip = blockIdx.x % STRIPS, col = strip * 32 + lane;
    const float* const left = grad_out + warp * UNITS + unit;
    const float* const right = x + warp * FEATURES + min(col, FEATURES - 1u);
    float l[DEEP], r[DEEP];
#pragma unroll
    for (int k = 0; k < DEEP; ++k) {
      l[k] = r[k] = 0.0f;
      if ((k + 1) * WARPS <= ROWS || k * WARPS + warp < ROWS) {
        r[k] = right[k * WARPS * FEATURES];
        l[k] = left[k * WARPS * UNITS];
      }
    }
    float sum = 0.0f, total = 0.0f;
#pragma unroll
    for (int k = 0; k < DEEP; ++k) {
      sum += l[k] * r[k];
      total += l[k];
    }
    parts[warp][lane] = sum;
    if (lane == 0) parts[warp][32] = total;
    __syncthreads();
    if (threadIdx.x < 33) {  // the 33rd has the bias
      float all = 0.0f;
#pragma unroll
      for (int w = 0; w < WARPS; ++w) all += parts[w][threadIdx.x];
      if (threadIdx.x < 32) {
        if (col < FEATURES) grad_weight[unit * FEATURES + col] = all;
      } else if (strip == 0) {
        grad_bias[unit] = all;
      }
    }
    return;
  }
  const unsigned at = (blockIdx.x - WEIGHTS) * (32 * WARPS) + threadIdx.x;
  if (at >= ELEMENTS) return;
  const float* const left = grad_out + at / FEATURES * UNITS;
  const float* const right = weight + at % FEATURES;
  float l[UNITS], r[UNITS];
#pragma unroll
  for (int k = 0; k < UNITS; ++k) {
    r[k] = right[k * FEATURES];
    l[k] = left[k];
  }
  float sum = 0.0f;
#pragma unroll
  for (int k = 0; k < UNITS; ++k) sum += l[k] * r[k];
  grad_x[at] = sum;
}

/* plan.py
import kw

# tunable: WARPS = 8, 4, 16

def ceil(a, b):
    return -(-a // b)

def plan(x, weight, bias, grad_out, grad_x, grad_weight, grad_bias):
    rows, features, units = x.size(0), x.size(1), weight.size(0)
    blocks = units * ceil(features, 32) + ceil(rows * features, 32 * WARPS)
    return kw.plan(
        kw.launch("backward", blocks, 32 * WARPS, grad_out, x, weight, grad_x, grad_weight, grad_bias),
        definitions={"ROWS": rows, "FEATURES": features, "UNITS": units, "WARPS": WARPS})
*/
