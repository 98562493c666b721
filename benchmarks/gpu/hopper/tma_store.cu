// A row leaves in boxes through a tensor map.
extern "C" __global__ void tma_store(const float* x, const float* weight, const __grid_constant__ CUtensorMap out) {
  __shared__ __align__(128) float row[1024];
  for (int i = threadIdx.x; i < 1024; i += blockDim.x) row[i] = x[1024ll * blockIdx.x + i] * weight[i];
  show_stores();
  __syncthreads();
  if (threadIdx.x == 0) {
    for (int box = 0; box < 4; ++box)
      asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%1, %2}], [%3];" ::"l"(&out),
                   "r"(256 * box), "r"((int)blockIdx.x), "r"(in_shared(row + 256 * box))
                   : "memory");
    end_stores();
  }
}
/* plan.py
import kw


def plan(x, weight, out):
    return kw.plan(kw.launch("tma_store", x.shape[0], 256, x, weight, kw.tensor_map(out, (1, 256))))
*/
