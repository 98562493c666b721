// Batch normalisation as its formula says it.
#include <kernelwright.h>

void kernel(kw::Tensor<const float, 3> x, kw::Tensor<const float, 1> mean, kw::Tensor<const float, 1> var,
            kw::Tensor<const float, 1> weight, kw::Tensor<const float, 1> bias, double eps, kw::Tensor<float, 3> out) {
#pragma omp parallel for collapse(2)
  for (std::int64_t n = 0; n < x.size(0); ++n)
    for (std::int64_t c = 0; c < x.size(1); ++c) {
      const float scale = 1.0f / std::sqrt(var(c) + static_cast<float>(eps));
      for (std::int64_t p = 0; p < x.size(2); ++p) out(n, c, p) = (x(n, c, p) - mean(c)) * scale * weight(c) + bias(c);
    }
}
