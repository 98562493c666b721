// 3xTF32: both factors in two parts, and every 32 products are added to a float32 sum of their own.
#include <kernelwright.h>

#include <algorithm>
#include <bit>

namespace {

// The nearest number of ten bits after its first, as tensor cores take them.
inline float ten(float value) {
  return std::bit_cast<float>((std::bit_cast<std::uint32_t>(value) + 0x1000u) & 0xffffe000u);
}

}  // namespace

void kernel(kw::Tensor<const float, 3> a, kw::Tensor<const float, 3> b, kw::Tensor<float, 3> out) {
  const std::int64_t depth = a.size(2);
#pragma omp parallel for schedule(static)
  for (std::int64_t n = 0; n < out.size(0); ++n)
    for (std::int64_t i = 0; i < out.size(1); ++i)
      for (std::int64_t j = 0; j < out.size(2); ++j) {
        float sum = 0.0f;
        for (std::int64_t first = 0; first < depth; first += 32) {
          float main = 0.0f, small = 0.0f;
          for (std::int64_t k = first; k < std::min(first + 32, depth); ++k) {
            const float x = a(n, i, k), y = b(n, k, j), x0 = ten(x), x1 = ten(x - x0), y0 = ten(y), y1 = ten(y - y0);
            main += x0 * y0;
            small += x0 * y1 + x1 * y0;
          }
          sum += main + small;
        }
        out(n, i, j) = sum;
      }
}
