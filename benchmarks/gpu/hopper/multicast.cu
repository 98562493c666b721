// Two blocks of a cluster get the weight by one copy, which the first of them asks for.
#include <cooperative_groups.h>

extern "C" __global__ void multicast(const float* x, const float* weight, float* out, int rows) {
  auto cluster = cooperative_groups::this_cluster();
  __shared__ __align__(128) float factor[1024];
  __shared__ u64 full;
  if (threadIdx.x == 0) {
    init(full, 1);
    show_barriers();
    expect(full, 4096);
  }
  cluster.sync();
  if (threadIdx.x == 0 && cluster.block_rank() == 0)
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1], %2, [%3], %4;" ::"r"(
            in_shared(factor)),
        "l"(weight), "r"(4096), "r"(in_shared(&full)), "h"((unsigned short)3)
        : "memory");
  wait(full, 0);
  if (blockIdx.x < rows)
    for (int i = threadIdx.x; i < 1024; i += blockDim.x)
      out[1024ll * blockIdx.x + i] = x[1024ll * blockIdx.x + i] * factor[i];
  cluster.sync();
}
/* plan.py
import kw


def plan(x, weight, out):
    rows = x.shape[0]
    return kw.plan(kw.launch("multicast", rows + rows % 2, 256, x, weight, out, kw.i32(rows), cluster=2))
*/
