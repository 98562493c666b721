"""The product by cuBLAS and ReLU by torch, both in C++, with a kernel between them. ReLU is arithmetic of ours."""

import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
#include <cublas_v2.h>

__global__ void finish(float* out, const float* b, float scale, int n, int count) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) out[i] = (out[i] + b[i % n]) * scale;
}

torch::Tensor forward(torch::Tensor x, torch::Tensor w, torch::Tensor b, double scale) {
  auto out = torch::empty({x.size(0), w.size(0)}, x.options());
  const int m = x.size(0), n = w.size(0), k = x.size(1);
  const float one = 1.f, zero = 0.f;
  cublasHandle_t handle = at::cuda::getCurrentCUDABlasHandle();
  cublasSetStream(handle, at::cuda::getCurrentCUDAStream());
  cublasSgemm(handle, CUBLAS_OP_T, CUBLAS_OP_N, n, m, k, &one, w.data_ptr<float>(), k, x.data_ptr<float>(), k, &zero,
              out.data_ptr<float>(), n);
  finish<<<(m * n + 127) / 128, 128>>>(out.data_ptr<float>(), b.data_ptr<float>(), scale, n, m * n);
  return torch::relu(out);
}
"""

own = load_inline(
    "products",
    "torch::Tensor forward(torch::Tensor x, torch::Tensor w, torch::Tensor b, double scale);",
    SOURCE,
    functions=["forward"],
    extra_ldflags=["-lcublas"],
)


class ModelNew(nn.Module):
    def __init__(self, in_features, out_features, scale):
        super().__init__()
        self.linear = nn.Linear(in_features, out_features)
        self.scale = scale

    def forward(self, x):
        return own.forward(x, self.linear.weight, self.linear.bias, self.scale)
