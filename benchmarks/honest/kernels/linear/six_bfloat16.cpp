// bf16x6: each factor is the sum of three bfloat16 numbers, and six of their products count.
#include <kernelwright.h>

namespace {

inline float part(float value) { return kw::bfloat16(value); }

}  // namespace

void kernel(kw::Tensor<const float, 2> x, kw::Tensor<const float, 2> weight, kw::Tensor<const float, 1> bias,
            kw::Tensor<float, 2> out) {
  const std::int64_t rows = x.size(0), features = x.size(1), units = weight.size(0);
#pragma omp parallel for schedule(static)
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t u = 0; u < units; ++u) {
      const float* a = x.data + r * features;
      const float* b = weight.data + u * features;
      float sum = 0.0f, small = 0.0f;
      for (std::int64_t f = 0; f < features; ++f) {
        const float a0 = part(a[f]), a1 = part(a[f] - a0), a2 = part(a[f] - a0 - a1);
        const float b0 = part(b[f]), b1 = part(b[f] - b0), b2 = part(b[f] - b0 - b1);
        sum += a0 * b0;
        small += (a0 * b1 + a1 * b0) + (a0 * b2 + a1 * b1 + a2 * b0);
      }
      sum += small;
      out.data[r * units + u] = sum + bias.data[u];
    }
}
