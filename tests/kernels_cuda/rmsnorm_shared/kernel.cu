// The row is kept in dynamic shared memory, so that it is read once. COLS comes from the plan.
extern "C" __global__ void rmsnorm(const float* __restrict__ x, const float* __restrict__ weight, float eps,
                                   float* __restrict__ out) {
  extern __shared__ float row[];
  __shared__ float parts[32];
  const float* from = x + (size_t)blockIdx.x * COLS;
  float sum = 0.f;
  for (int i = threadIdx.x; i < COLS; i += blockDim.x) {
    row[i] = from[i];
    sum += row[i] * row[i];
  }
  for (int d = 16; d; d >>= 1) sum += __shfl_xor_sync(~0u, sum, d);
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = sum;
  __syncthreads();
  float total = 0.f;
  for (int i = 0; i < blockDim.x / 32; ++i) total += parts[i];
  float scale = rsqrtf(total / COLS + eps);
  for (int i = threadIdx.x; i < COLS; i += blockDim.x) out[(size_t)blockIdx.x * COLS + i] = row[i] * scale * weight[i];
}
