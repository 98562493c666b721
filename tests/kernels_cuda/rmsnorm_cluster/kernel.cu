// Four blocks share a row and read each other's sums through distributed shared memory.
#include <cooperative_groups.h>
namespace cg = cooperative_groups;

extern "C" __global__ void rmsnorm(const float* __restrict__ x, const float* __restrict__ weight, float eps,
                                   float* __restrict__ out, int cols) {
  cg::cluster_group cluster = cg::this_cluster();
  __shared__ float parts[8];
  __shared__ float mine;
  int size = cluster.num_blocks(), rank = cluster.block_rank(), row = blockIdx.x / size;
  const float* from = x + (size_t)row * cols;
  float sum = 0.f;
  for (int i = rank * blockDim.x + threadIdx.x; i < cols; i += size * blockDim.x) sum += from[i] * from[i];
  for (int d = 16; d; d >>= 1) sum += __shfl_xor_sync(~0u, sum, d);
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = sum;
  __syncthreads();
  if (threadIdx.x == 0) {
    mine = 0.f;
    for (int i = 0; i < 8; ++i) mine += parts[i];
  }
  cluster.sync();
  float total = 0.f;
  for (int i = 0; i < size; ++i) total += *cluster.map_shared_rank(&mine, i);
  cluster.sync();
  float scale = rsqrtf(total / cols + eps);
  for (int i = rank * blockDim.x + threadIdx.x; i < cols; i += size * blockDim.x)
    out[(size_t)row * cols + i] = from[i] * scale * weight[i];
}
