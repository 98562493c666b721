// 3 by 3 convolution with padding 1: for each filter and row, one shifted row after the other is added.
#include <kernelwright.h>

#include <algorithm>

void kernel(kw::Tensor<const float, 4> x, kw::Tensor<const float, 4> weight, kw::Tensor<const float, 1> bias,
            kw::Tensor<float, 4> out) {
  const std::int64_t channels = x.size(1), height = x.size(2), width = x.size(3), filters = weight.size(0);
#pragma omp parallel for collapse(2) schedule(static)
  for (std::int64_t n = 0; n < x.size(0); ++n)
    for (std::int64_t k = 0; k < filters; ++k)
      for (std::int64_t i = 0; i < height; ++i) {
        float* __restrict to = &out(n, k, i, 0);
        std::fill(to, to + width, bias(k));
        for (std::int64_t c = 0; c < channels; ++c)
          for (std::int64_t a = -1; a <= 1; ++a) {
            if (i + a < 0 || i + a >= height) continue;
            const float* __restrict in = &x(n, c, i + a, 0);
            for (std::int64_t b = -1; b <= 1; ++b) {
              const float w = weight(k, c, a + 1, b + 1);
              const std::int64_t from = std::max<std::int64_t>(0, -b), until = std::min(width, width - b);
              for (std::int64_t j = from; j < until; ++j) to[j] += w * in[j + b];
            }
          }
      }
}
