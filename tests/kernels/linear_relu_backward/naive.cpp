// Backward of a linear layer with ReLU. With g the upstream gradient where the layer's output is positive:
//   grad_x = g weight,  grad_weight = g^T x,  grad_bias = column sums of g.
#include <kernelwright.h>

#include <algorithm>

void kernel(kw::Tensor<const float, 2> x, kw::Tensor<const float, 2> weight, kw::Tensor<const float, 1>,
            kw::Tensor<const float, 2> saved_out, kw::Tensor<const float, 2> grad_out, kw::Tensor<float, 2> grad_x,
            kw::Tensor<float, 2> grad_weight, kw::Tensor<float, 1> grad_bias) {
  const std::int64_t rows = x.size(0), features = x.size(1), units = weight.size(0);
#pragma omp parallel
  {
#pragma omp for schedule(static)
    for (std::int64_t r = 0; r < rows; ++r) {
      float* __restrict to = grad_x.data + r * features;
      std::fill(to, to + features, 0.0f);
      for (std::int64_t u = 0; u < units; ++u) {
        const float g = saved_out(r, u) > 0 ? grad_out(r, u) : 0.0f;
        const float* __restrict w = weight.data + u * features;
        for (std::int64_t f = 0; f < features; ++f) to[f] += g * w[f];
      }
    }
#pragma omp for schedule(static)
    for (std::int64_t u = 0; u < units; ++u) {
      float* __restrict to = grad_weight.data + u * features;
      std::fill(to, to + features, 0.0f);
      float sum = 0.0f;
      for (std::int64_t r = 0; r < rows; ++r) {
        const float g = saved_out(r, u) > 0 ? grad_out(r, u) : 0.0f;
        const float* __restrict in = x.data + r * features;
        for (std::int64_t f = 0; f < features; ++f) to[f] += g * in[f];
        sum += g;
      }
      grad_bias(u) = sum;
    }
  }
}
