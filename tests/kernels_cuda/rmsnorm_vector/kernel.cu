// One block per row; the row is read twice, the second time from the caches. Vector loads where rows are aligned.
template <int Threads>
__device__ float sum_over_block(float value) {
  __shared__ float parts[Threads / 32];
  for (int d = 16; d; d >>= 1) value += __shfl_xor_sync(~0u, value, d);
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = value;
  __syncthreads();
  float total = 0.f;
  for (int i = 0; i < Threads / 32; ++i) total += parts[i];
  return total;
}

template <int Threads, bool Vector>
__global__ void rmsnorm(const float* __restrict__ x, const float* __restrict__ weight, float eps,
                        float* __restrict__ out, int cols) {
  const float* row = x + (size_t)blockIdx.x * cols;
  float* to = out + (size_t)blockIdx.x * cols;
  float sum = 0.f;
  if constexpr (Vector) {
    const float4* row4 = reinterpret_cast<const float4*>(row);
    for (int i = threadIdx.x; i < cols / 4; i += Threads) {
      float4 v = row4[i];
      sum += v.x * v.x + v.y * v.y + v.z * v.z + v.w * v.w;
    }
  } else {
    for (int i = threadIdx.x; i < cols; i += Threads) sum += row[i] * row[i];
  }
  float scale = rsqrtf(sum_over_block<Threads>(sum) / cols + eps);
  if constexpr (Vector) {
    const float4* row4 = reinterpret_cast<const float4*>(row);
    const float4* weight4 = reinterpret_cast<const float4*>(weight);
    float4* to4 = reinterpret_cast<float4*>(to);
    for (int i = threadIdx.x; i < cols / 4; i += Threads) {
      float4 v = row4[i], w = weight4[i];
      to4[i] = make_float4(v.x * scale * w.x, v.y * scale * w.y, v.z * scale * w.z, v.w * scale * w.w);
    }
  } else {
    for (int i = threadIdx.x; i < cols; i += Threads) to[i] = row[i] * scale * weight[i];
  }
}
