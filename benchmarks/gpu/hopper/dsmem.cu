// Four blocks share a row: each multiplies a quarter, and stores that of its neighbour from the neighbour's memory.
#include <cooperative_groups.h>

extern "C" __global__ void dsmem(const float* x, const float* weight, float* out) {
  auto cluster = cooperative_groups::this_cluster();
  __shared__ float quarter[256];
  const int rank = cluster.block_rank(), next = (rank + 1) % 4, i = threadIdx.x;
  const long long row = blockIdx.x / 4 * 1024ll;
  quarter[i] = x[row + 256 * rank + i] * weight[256 * rank + i];
  cluster.sync();
  out[row + 256 * next + i] = cluster.map_shared_rank(quarter, next)[i];
  cluster.sync();
}
/* plan.py
import kw


def plan(x, weight, out):
    return kw.plan(kw.launch("dsmem", 4 * x.shape[0], 256, x, weight, out, cluster=4))
*/
