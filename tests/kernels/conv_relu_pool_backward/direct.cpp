// Backward of convolution, ReLU and pooling: each gradient goes to the place of its maximum, where that is positive.
#include <kernelwright.h>

#include <algorithm>

void kernel(kw::Tensor<const float, 4> x, kw::Tensor<const float, 4> weight, kw::Tensor<const float, 1>,
            kw::Tensor<const float, 4> saved_out, kw::Tensor<const std::int64_t, 4> saved_places,
            kw::Tensor<const float, 4> grad_out, kw::Tensor<float, 4> grad_x, kw::Tensor<float, 4> grad_weight,
            kw::Tensor<float, 1> grad_bias) {
  const std::int64_t batch = x.size(0), channels = x.size(1), filters = weight.size(0);
  const std::int64_t plane = saved_out.size(2) * saved_out.size(3), width = x.size(3) - 2;
#pragma omp parallel
  {
#pragma omp for collapse(2) schedule(static)
    for (std::int64_t n = 0; n < batch; ++n)
      for (std::int64_t c = 0; c < channels; ++c) {
        float* to = &grad_x(n, c, 0, 0);
        std::fill(to, to + x.size(2) * x.size(3), 0.0f);
        for (std::int64_t k = 0; k < filters; ++k)
          for (std::int64_t p = 0; p < plane; ++p) {
            const std::int64_t at = (n * filters + k) * plane + p;
            if (!(saved_out.data[at] > 0)) continue;
            const std::int64_t i = saved_places.data[at] / width, j = saved_places.data[at] % width;
            for (std::int64_t a = 0; a < 3; ++a)
              for (std::int64_t b = 0; b < 3; ++b) grad_x(n, c, i + a, j + b) += grad_out.data[at] * weight(k, c, a, b);
          }
      }
#pragma omp for schedule(static)
    for (std::int64_t k = 0; k < filters; ++k) {
      float* to = &grad_weight(k, 0, 0, 0);
      std::fill(to, to + channels * 9, 0.0f);
      float sum = 0.0f;
      for (std::int64_t n = 0; n < batch; ++n)
        for (std::int64_t p = 0; p < plane; ++p) {
          const std::int64_t at = (n * filters + k) * plane + p;
          if (!(saved_out.data[at] > 0)) continue;
          const std::int64_t i = saved_places.data[at] / width, j = saved_places.data[at] % width;
          sum += grad_out.data[at];
          for (std::int64_t c = 0; c < channels; ++c)
            for (std::int64_t a = 0; a < 3; ++a)
              for (std::int64_t b = 0; b < 3; ++b) grad_weight(k, c, a, b) += grad_out.data[at] * x(n, c, i + a, j + b);
        }
      grad_bias(k) = sum;
    }
  }
}
