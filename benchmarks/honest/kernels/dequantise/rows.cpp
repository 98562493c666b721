// Whole numbers times the scale of their row.
#include <kernelwright.h>

void kernel(kw::Tensor<const std::int8_t, 2> x, kw::Tensor<const float, 1> scale, kw::Tensor<float, 2> out) {
  for (std::int64_t r = 0; r < x.size(0); ++r)
    for (std::int64_t c = 0; c < x.size(1); ++c) out(r, c) = static_cast<float>(x(r, c)) * scale(r);
}
