"""The product by torch, and everything behind it in one kernel."""

import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>

__global__ void epilogue(const float* y, float* out, float scale, int64_t n) {
  int64_t i = blockIdx.x * int64_t(blockDim.x) + threadIdx.x;
  if (i < n) out[i] = fmaxf(y[i], 0.f) * scale;
}

torch::Tensor relu_scaled(torch::Tensor y, double scale) {
  TORCH_CHECK(y.is_cuda() && y.is_contiguous(), "y must be contiguous");
  auto out = torch::empty_like(y);
  const int64_t n = y.numel();
  epilogue<<<(n + 255) / 256, 256>>>(y.data_ptr<float>(), out.data_ptr<float>(), scale, n);
  return out;
}
"""
own = load_inline(
    name="epilogue",
    cpp_sources="torch::Tensor relu_scaled(torch::Tensor y, double scale);",
    cuda_sources=SOURCE,
    functions=["relu_scaled"],
    verbose=False,
)


class ModelNew(nn.Module):
    def __init__(self, in_features, out_features, scale):
        super().__init__()
        self.linear = nn.Linear(in_features, out_features)
        self.scale = scale

    def forward(self, x):
        return own.relu_scaled(self.linear(x), self.scale)
