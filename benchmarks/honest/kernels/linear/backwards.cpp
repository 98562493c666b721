// One float32 sum, from the last feature to the first.
#include <kernelwright.h>

void kernel(kw::Tensor<const float, 2> x, kw::Tensor<const float, 2> weight, kw::Tensor<const float, 1> bias,
            kw::Tensor<float, 2> out) {
  const std::int64_t rows = x.size(0), features = x.size(1), units = weight.size(0);
#pragma omp parallel for schedule(static)
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t u = 0; u < units; ++u) {
      const float* a = x.data + r * features;
      const float* b = weight.data + u * features;
      float sum = 0.0f;
      for (std::int64_t f = features - 1; f >= 0; --f) sum += a[f] * b[f];
      out.data[r * units + u] = sum + bias.data[u];
    }
}
