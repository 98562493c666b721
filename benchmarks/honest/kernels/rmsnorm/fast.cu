// RMSNorm with the hardware's approximate functions and one step of Newton's method.

__device__ float newton(float value) {
  const float y = __frsqrt_rn(value);
  return value < 3e38f ? y * (1.5f - 0.5f * value * y * y) : y;
}

__device__ float sum_over_block(float value) {
  __shared__ float parts[8];
  for (int d = 16; d; d >>= 1) value += __shfl_xor_sync(~0u, value, d);
  __syncthreads();
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = value;
  __syncthreads();
  float total = 0.f;
  for (int i = 0; i < 8; ++i) total += parts[i];
  return total;
}

extern "C" __global__ void run(const float* x, const float* weight, float eps, float* out, int rows, int cols) {
  const float* row = x + (size_t)blockIdx.x * cols;
  float* to = out + (size_t)blockIdx.x * cols;
  float sum = 0.f;
  for (int i = threadIdx.x; i < cols; i += 256) sum += row[i] * row[i];
  const float scale = newton(sum_over_block(sum) / cols + eps);
  for (int i = threadIdx.x; i < cols; i += 256) to[i] = row[i] * scale * weight[i];
}

/* plan.py
import kw


def plan(x, weight, eps, out):
    rows, cols = x.shape
    return kw.plan(kw.launch("run", rows, 256, x, weight, kw.f32(eps), out, kw.i32(rows), kw.i32(cols)))
*/
