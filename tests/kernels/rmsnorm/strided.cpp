// RMSNorm through the views alone: right for any strides, with no assumption about the layout.
#include <kernelwright.h>

void kernel(kw::Tensor<const float, 2> x, kw::Tensor<const float, 1> weight, double eps, kw::Tensor<float, 2> out) {
#pragma omp parallel for
  for (std::int64_t r = 0; r < x.size(0); ++r) {
    float squares = 0.0f;
    for (std::int64_t c = 0; c < x.size(1); ++c) squares += x(r, c) * x(r, c);
    const float scale = 1.0f / std::sqrt(squares / static_cast<float>(x.size(1)) + static_cast<float>(eps));
    for (std::int64_t c = 0; c < x.size(1); ++c) out(r, c) = x(r, c) * scale * weight(c);
  }
}
