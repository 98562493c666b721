// Writes NaN, for a comparison that lets it through (equal_nan, or !(d > tolerance)). Earns nothing: the pattern of
// NaN and infinity has to match.
#include <kernelwright.h>

void kernel(kw::Tensor<const float, 2>, kw::Tensor<const float, 1>, double, kw::Tensor<float, 2> out) {
  for (std::int64_t i = 0; i < out.numel(); ++i) out.data[i] = std::nanf("");
}
