// GELU with the library's error function.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

template <class T> struct Wide { using type = float; };
template <> struct Wide<double> { using type = double; };

template <class T> __global__ void run(const T* x, T* out, long long count) {
  using W = typename Wide<T>::type;
  const long long at = blockIdx.x * 256LL + threadIdx.x;
  if (at >= count) return;
  const W v = W(x[at]);
  out[at] = T(v * W(0.5) * (W(1) + erf(v * W(0.70710678118654752440))));
}

/* plan.py
import kw

TYPES = {"float64": "double", "float32": "float", "float16": "__half", "bfloat16": "__nv_bfloat16"}


def plan(x, out):
    count = x.numel()
    return kw.plan(kw.launch(f"run<{TYPES[x.dtype]}>", (count + 255) // 256, 256, x, out, kw.i64(count)))
*/
