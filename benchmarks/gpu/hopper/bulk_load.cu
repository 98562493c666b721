// A row comes in one copy, without a map.
extern "C" __global__ void bulk_load(const float* x, const float* weight, float* out) {
  __shared__ __align__(128) float row[1024];
  __shared__ u64 full;
  if (threadIdx.x == 0) {
    init(full, 1);
    show_barriers();
    expect(full, 4096);
    load_bulk(row, x + 1024ll * blockIdx.x, 4096, full);
  }
  __syncthreads();
  wait(full, 0);
  for (int i = threadIdx.x; i < 1024; i += blockDim.x) out[1024ll * blockIdx.x + i] = row[i] * weight[i];
}
/* plan.py
import kw


def plan(x, weight, out):
    return kw.plan(kw.launch("bulk_load", x.shape[0], 256, x, weight, out))
*/
