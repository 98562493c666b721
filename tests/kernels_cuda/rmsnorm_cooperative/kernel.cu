// One launch of blocks that meet in the middle: first every row's sum, then every element.
#include <cooperative_groups.h>
namespace cg = cooperative_groups;

extern "C" __global__ void rmsnorm(const float* __restrict__ x, const float* __restrict__ weight, float eps,
                                   float* __restrict__ out, float* scales, int rows, int cols) {
  __shared__ float parts[8];
  for (int row = blockIdx.x; row < rows; row += gridDim.x) {
    float sum = 0.f;
    for (int i = threadIdx.x; i < cols; i += blockDim.x) {
      float v = x[(size_t)row * cols + i];
      sum += v * v;
    }
    for (int d = 16; d; d >>= 1) sum += __shfl_xor_sync(~0u, sum, d);
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x == 0) {
      float total = 0.f;
      for (int i = 0; i < 8; ++i) total += parts[i];
      scales[row] = rsqrtf(total / cols + eps);
    }
    __syncthreads();
  }
  cg::this_grid().sync();
  long long count = (long long)rows * cols, step = (long long)gridDim.x * blockDim.x;
  for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < count; i += step)
    out[i] = x[i] * scales[i / cols] * weight[i % cols];
}
