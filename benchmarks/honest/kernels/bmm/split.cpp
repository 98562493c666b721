// Batched products whose depth is split into four parts, which are added up at the end.
#include <kernelwright.h>

void kernel(kw::Tensor<const float, 3> a, kw::Tensor<const float, 3> b, kw::Tensor<float, 3> out) {
  const std::int64_t depth = a.size(2);
#pragma omp parallel for schedule(static)
  for (std::int64_t n = 0; n < out.size(0); ++n)
    for (std::int64_t i = 0; i < out.size(1); ++i)
      for (std::int64_t j = 0; j < out.size(2); ++j) {
        float part[4] = {};
        for (std::int64_t k = 0; k < depth; ++k) part[k * 4 / depth] += a(n, i, k) * b(n, k, j);
        const float sum = (part[0] + part[1]) + (part[2] + part[3]);
        out(n, i, j) = sum;
      }
}
