// A row leaves in one copy, which is waited for: the kernel with which initcheck once did not end.
extern "C" __global__ void bulk_store(const float* x, const float* weight, float* out) {
  __shared__ __align__(128) float row[1024];
  for (int i = threadIdx.x; i < 1024; i += blockDim.x) row[i] = x[1024ll * blockIdx.x + i] * weight[i];
  show_stores();
  __syncthreads();
  if (threadIdx.x == 0) {
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(out + 1024ll * blockIdx.x),
                 "r"(in_shared(row)), "r"(4096)
                 : "memory");
    end_stores();
  }
}
/* plan.py
import kw


def plan(x, weight, out):
    return kw.plan(kw.launch("bulk_store", x.shape[0], 256, x, weight, out))
*/
