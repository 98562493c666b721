// Batched products, one sum after another.
#include <kernelwright.h>

void kernel(kw::Tensor<const float, 3> a, kw::Tensor<const float, 3> b, kw::Tensor<float, 3> out) {
  const std::int64_t depth = a.size(2);
#pragma omp parallel for schedule(static)
  for (std::int64_t n = 0; n < out.size(0); ++n)
    for (std::int64_t i = 0; i < out.size(1); ++i)
      for (std::int64_t j = 0; j < out.size(2); ++j) {
        float sum = 0.0f;
        for (std::int64_t k = 0; k < depth; ++k) sum += a(n, i, k) * b(n, k, j);
        out(n, i, j) = sum;
      }
}
