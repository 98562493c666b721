// One thread for each element, with sums in float32.
#include <cuda_bf16.h>
#include <cuda_fp8.h>

extern "C" __global__ void run(const __nv_fp8_e4m3* a, const __nv_fp8_e4m3* b, const float* scale_a,
                               const float* scale_b, __nv_bfloat16* out, int cols, int depth) {
  const int m = blockIdx.x;
  for (int n = threadIdx.x; n < cols; n += 64) {
    float sum = 0.0f;
    for (int k = 0; k < depth; ++k) sum += float(a[(size_t)m * depth + k]) * float(b[(size_t)n * depth + k]);
    out[(size_t)m * cols + n] = __float2bfloat16(sum * scale_a[m] * scale_b[n]);
  }
}

/* plan.py
import kw


def plan(a, b, scale_a, scale_b, out):
    rows, cols = out.shape
    return kw.plan(kw.launch("run", rows, 64, a, b, scale_a, scale_b, out, kw.i32(cols), kw.i32(a.shape[1])))
*/
