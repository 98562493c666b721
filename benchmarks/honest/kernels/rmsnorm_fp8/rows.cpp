// Two passes over a row: its sum of squares and its largest weighted element, then one rounding of each element.
#include <kernelwright.h>

#include <algorithm>

void kernel(kw::Tensor<const float, 2> x, kw::Tensor<const float, 1> weight, double eps,
            kw::Tensor<kw::float8_e4m3fn, 2> q, kw::Tensor<float, 2> scale) {
  const std::int64_t cols = x.size(1);
  for (std::int64_t r = 0; r < x.size(0); ++r) {
    float squares = 0.0f, most = 0.0f;
    for (std::int64_t c = 0; c < cols; ++c) {
      const float size = std::fabs(x(r, c) * weight(c));
      squares += x(r, c) * x(r, c);
      most = size > most || std::isnan(size) ? size : most;
    }
    const float norm = 1.0f / std::sqrt(squares / static_cast<float>(cols) + static_cast<float>(eps));
    const float largest = most * norm;
    scale(r, 0) = (largest < 1e-10f ? 1e-10f : largest) / 448.0f;
    for (std::int64_t c = 0; c < cols; ++c) q(r, c) = x(r, c) * norm * weight(c) / scale(r, 0);
  }
}
