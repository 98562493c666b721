// Backward of a 3 by 3 convolution with padding 1, in the order of the definition.
#include <kernelwright.h>

#include <algorithm>

void kernel(kw::Tensor<const float, 4> x, kw::Tensor<const float, 4> weight, kw::Tensor<const float, 1>,
            kw::Tensor<const float, 4> grad_out, kw::Tensor<float, 4> grad_x, kw::Tensor<float, 4> grad_weight,
            kw::Tensor<float, 1> grad_bias) {
  const std::int64_t batch = x.size(0), channels = x.size(1), height = x.size(2), width = x.size(3);
  const std::int64_t filters = weight.size(0);
#pragma omp parallel
  {
#pragma omp for collapse(2) schedule(static)
    for (std::int64_t n = 0; n < batch; ++n)
      for (std::int64_t c = 0; c < channels; ++c)
        for (std::int64_t i = 0; i < height; ++i) {
          float* __restrict to = &grad_x(n, c, i, 0);
          std::fill(to, to + width, 0.0f);
          for (std::int64_t k = 0; k < filters; ++k)
            for (std::int64_t a = -1; a <= 1; ++a) {
              if (i - a < 0 || i - a >= height) continue;
              const float* __restrict g = &grad_out(n, k, i - a, 0);
              for (std::int64_t b = -1; b <= 1; ++b) {
                const float w = weight(k, c, a + 1, b + 1);
                const std::int64_t from = std::max<std::int64_t>(0, b), until = std::min(width, width + b);
                for (std::int64_t j = from; j < until; ++j) to[j] += w * g[j - b];
              }
            }
        }
#pragma omp for schedule(static)
    for (std::int64_t k = 0; k < filters; ++k) {
      float sum = 0.0f;
      for (std::int64_t n = 0; n < batch; ++n)
        for (std::int64_t i = 0; i < height; ++i)
          for (std::int64_t j = 0; j < width; ++j) sum += grad_out(n, k, i, j);
      grad_bias(k) = sum;
      for (std::int64_t c = 0; c < channels; ++c)
        for (std::int64_t a = -1; a <= 1; ++a)
          for (std::int64_t b = -1; b <= 1; ++b) {
            const std::int64_t from = std::max<std::int64_t>(0, -b), until = std::min(width, width - b);
            float part = 0.0f;
            for (std::int64_t n = 0; n < batch; ++n)
              for (std::int64_t i = std::max<std::int64_t>(0, -a); i < std::min(height, height - a); ++i) {
                const float* __restrict g = &grad_out(n, k, i, 0);
                const float* __restrict in = &x(n, c, i + a, 0);
                float row = 0.0f;
#pragma omp simd reduction(+ : row)
                for (std::int64_t j = from; j < until; ++j) row += g[j] * in[j + b];
                part += row;
              }
            grad_weight(k, c, a + 1, b + 1) = part;
          }
    }
  }
}
