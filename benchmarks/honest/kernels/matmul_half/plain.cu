// Products of 16-bit factors in float32, rounded once at the end.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

template <class T> __global__ void run(const T* a, const T* b, T* out, int m, int k, int n) {
  const int at = blockIdx.x * 128 + threadIdx.x;
  if (at >= m * n) return;
  float sum = 0.f;
  for (int i = 0; i < k; ++i) sum += float(a[at / n * k + i]) * float(b[i * n + at % n]);
  out[at] = T(sum);
}

/* plan.py
import kw

TYPES = {"float64": "double", "float32": "float", "float16": "__half", "bfloat16": "__nv_bfloat16"}


def plan(a, b, out):
    m, k = a.shape
    n = b.shape[1]
    name = f"run<{TYPES[a.dtype]}>"
    return kw.plan(kw.launch(name, (m * n + 127) // 128, 128, a, b, out, kw.i32(m), kw.i32(k), kw.i32(n)))
*/
