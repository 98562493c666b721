// Rows come in boxes of 256 columns through the tensor memory accelerator, where a row's pitch allows it.
#include <cuda.h>

__device__ float sum_over_block(float value) {
  __shared__ float parts[8];
  for (int d = 16; d; d >>= 1) value += __shfl_xor_sync(~0u, value, d);
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = value;
  __syncthreads();
  float total = 0.f;
  for (int i = 0; i < 8; ++i) total += parts[i];
  return total;
}

__global__ void with_map(const __grid_constant__ CUtensorMap map, const float* __restrict__ weight, float eps,
                         float* __restrict__ out, int cols) {
  extern __shared__ __align__(128) float row[];
  __shared__ __align__(8) unsigned long long arrived;
  unsigned barrier = (unsigned)__cvta_generic_to_shared(&arrived), to = (unsigned)__cvta_generic_to_shared(row);
  int boxes = (cols + 255) / 256;
  if (threadIdx.x == 0) {
    asm volatile("mbarrier.init.shared.b64 [%0], 1;" ::"r"(barrier));
    asm volatile("fence.proxy.async.shared::cta;");
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(barrier), "r"(boxes * 1024) : "memory");
    for (int box = 0; box < boxes; ++box)
      asm volatile(
          "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(
              to + box * 1024),
          "l"(&map), "r"(box * 256), "r"((int)blockIdx.x), "r"(barrier)
          : "memory");
  }
  asm volatile(
      "{\n.reg .pred done;\nWAIT:\nmbarrier.try_wait.parity.shared.b64 done, [%0], 0;\n@!done bra WAIT;\n}" ::"r"(barrier)
      : "memory");
  float sum = 0.f;
  for (int i = threadIdx.x; i < cols; i += blockDim.x) sum += row[i] * row[i];
  float scale = rsqrtf(sum_over_block(sum) / cols + eps);
  for (int i = threadIdx.x; i < cols; i += blockDim.x) out[(size_t)blockIdx.x * cols + i] = row[i] * scale * weight[i];
}

__global__ void without_map(const float* __restrict__ x, const float* __restrict__ weight, float eps,
                            float* __restrict__ out, int cols) {
  const float* row = x + (size_t)blockIdx.x * cols;
  float sum = 0.f;
  for (int i = threadIdx.x; i < cols; i += blockDim.x) sum += row[i] * row[i];
  float scale = rsqrtf(sum_over_block(sum) / cols + eps);
  for (int i = threadIdx.x; i < cols; i += blockDim.x) out[(size_t)blockIdx.x * cols + i] = row[i] * scale * weight[i];
}
