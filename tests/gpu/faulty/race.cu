// Right by luck: a barrier is missing between writing and reading shared memory.
extern "C" __global__ void run(const float* x, const float* weight, float eps, float* out, int cols) {
  __shared__ float parts[8];
  const float* from = x + (size_t)blockIdx.x * cols;
  float sum = 0.f;
  for (int i = threadIdx.x; i < cols; i += blockDim.x) sum += from[i] * from[i];
  for (int d = 16; d; d >>= 1) sum += __shfl_xor_sync(~0u, sum, d);
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = sum;
  float total = 0.f;
  for (int i = 0; i < 8; ++i) total += parts[i];
  float scale = rsqrtf(total / cols + eps);
  for (int i = threadIdx.x; i < cols; i += blockDim.x) out[(size_t)blockIdx.x * cols + i] = from[i] * scale * weight[i];
}

/* plan.py
import kw


def plan(x, weight, eps, out):
    rows, cols = x.shape
    return kw.plan(kw.launch("run", rows, 256, x, weight, kw.f32(eps), out, kw.i32(cols)))
*/
