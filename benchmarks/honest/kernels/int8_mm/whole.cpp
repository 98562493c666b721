// Exact sums in 32 bits, scaled once at the end.
#include <kernelwright.h>

void kernel(kw::Tensor<const std::int8_t, 2> a, kw::Tensor<const std::int8_t, 2> b, kw::Tensor<const float, 2> scale_a,
            kw::Tensor<const float, 1> scale_b, kw::Tensor<float, 2> out) {
  for (std::int64_t m = 0; m < out.size(0); ++m)
    for (std::int64_t n = 0; n < out.size(1); ++n) {
      std::int32_t sum = 0;
      for (std::int64_t k = 0; k < a.size(1); ++k) sum += a(m, k) * b(n, k);
      out(m, n) = static_cast<float>(sum) * (scale_a(m, 0) * scale_b(0));
    }
}
