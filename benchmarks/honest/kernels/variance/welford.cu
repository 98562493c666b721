// Unbiased variance: Welford's method in each thread of a warp, joined by Chan's rule.

extern "C" __global__ void run(const float* x, float* out, int cols) {
  float count = 0.f, mean = 0.f, squares = 0.f;
  for (int i = threadIdx.x; i < cols; i += 32) {
    const float value = x[(size_t)blockIdx.x * cols + i], off = value - mean;
    count += 1.f;
    mean += off / count;
    squares += off * (value - mean);
  }
  for (int d = 16; d; d >>= 1) {
    const float other = __shfl_xor_sync(~0u, count, d), of_mean = __shfl_xor_sync(~0u, mean, d);
    squares += __shfl_xor_sync(~0u, squares, d);
    const float all = count + other, off = of_mean - mean;
    if (all > 0.f) {
      squares += off * off * (count * other / all);
      mean = (mean * count + of_mean * other) / all;
    }
    count = all;
  }
  if (threadIdx.x == 0) out[blockIdx.x] = squares / (cols - 1);
}

/* plan.py
import kw


def plan(x, out):
    rows, cols = x.shape
    return kw.plan(kw.launch("run", rows, 32, x, out, kw.i32(cols)))
*/
