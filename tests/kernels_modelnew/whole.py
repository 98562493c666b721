"""The product as well; parameters of other names, in the same order."""

import math

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
#include <cublas_v2.h>
#include <cuda_runtime.h>

__global__ void linear(const float* x, const float* w, const float* b, float* out, float scale, int m, int n, int k) {
  int col = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y;
  if (col >= n) return;
  float sum = 0;
  for (int i = 0; i < k; ++i) sum += x[int64_t(row) * k + i] * w[int64_t(col) * k + i];
  out[int64_t(row) * n + col] = fmaxf(sum + b[col], 0.f) * scale;
}

std::vector<torch::Tensor> forward(torch::Tensor x, torch::Tensor w, torch::Tensor b, double scale) {
  auto out = torch::empty({x.size(0), w.size(0)}, x.options());
  int m = x.size(0), n = w.size(0), k = x.size(1);
  linear<<<dim3((n + 63) / 64, m), 64>>>(x.data_ptr<float>(), w.data_ptr<float>(), b.data_ptr<float>(),
                                         out.data_ptr<float>(), scale, m, n, k);
  return {out};
}
"""


class ModelNew(nn.Module):
    def __init__(self, in_features, out_features, scale):
        super().__init__()
        self.kernel = nn.Parameter(torch.Tensor(out_features, in_features))  # on the CPU, until the module is moved
        nn.init.kaiming_uniform_(self.kernel, a=math.sqrt(5))
        self.offset = nn.Parameter(torch.zeros(out_features))
        self.scale = scale
        declaration = "std::vector<torch::Tensor> forward(torch::Tensor x, torch::Tensor w, torch::Tensor b, double s);"
        self.own = load_inline("whole_" + str(out_features), declaration, SOURCE, functions=["forward"])

    def forward(self, x):
        return self.own.forward(x, self.kernel, self.offset, self.scale)[0]
