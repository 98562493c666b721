// 3xTF32 with promotion: every 32 products are added to a float32 sum.
#include <kernelwright.h>

#include <algorithm>
#include <bit>

namespace {

// The nearest number of ten bits after its first, as tensor cores take them.
inline float ten(float value) {
  return std::bit_cast<float>((std::bit_cast<std::uint32_t>(value) + 0x1000u) & 0xffffe000u);
}

}  // namespace

void kernel(kw::Tensor<const float, 2> x, kw::Tensor<const float, 2> weight, kw::Tensor<const float, 1> bias,
            kw::Tensor<float, 2> out) {
  const std::int64_t rows = x.size(0), features = x.size(1), units = weight.size(0);
#pragma omp parallel for schedule(static)
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t u = 0; u < units; ++u) {
      const float* a = x.data + r * features;
      const float* b = weight.data + u * features;
      float sum = 0.0f;
      for (std::int64_t first = 0; first < features; first += 32) {
        float main = 0.0f, small = 0.0f;
        for (std::int64_t f = first; f < std::min(first + 32, features); ++f) {
          const float a0 = ten(a[f]), a1 = ten(a[f] - a0), b0 = ten(b[f]), b1 = ten(b[f] - b0);
          main += a0 * b0;
          small += a0 * b1 + a1 * b0;
        }
        sum += main + small;
      }
      out.data[r * units + u] = sum + bias.data[u];
    }
}
