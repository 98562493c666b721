// Sums of four lanes in float32, scaled once at the end.
#include <kernelwright.h>

void kernel(kw::Tensor<const kw::float8_e4m3fn, 2> a, kw::Tensor<const kw::float8_e4m3fn, 2> b,
            kw::Tensor<const float, 2> scale_a, kw::Tensor<const float, 2> scale_b,
            kw::Tensor<kw::bfloat16, 2> out) {
  const std::int64_t depth = a.size(1);
  for (std::int64_t m = 0; m < out.size(0); ++m)
    for (std::int64_t n = 0; n < out.size(1); ++n) {
      float sums[4] = {};
      for (std::int64_t k = 0; k < depth; ++k) sums[k % 4] += float(a(m, k)) * float(b(n, k));
      out(m, n) = ((sums[0] + sums[1]) + (sums[2] + sums[3])) * (scale_a(m, 0) * scale_b(n, 0));
    }
}
