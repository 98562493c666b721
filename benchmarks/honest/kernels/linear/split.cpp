// Eight parts of the features, which are added up in double.
#include <kernelwright.h>

void kernel(kw::Tensor<const float, 2> x, kw::Tensor<const float, 2> weight, kw::Tensor<const float, 1> bias,
            kw::Tensor<float, 2> out) {
  const std::int64_t rows = x.size(0), features = x.size(1), units = weight.size(0);
#pragma omp parallel for schedule(static)
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t u = 0; u < units; ++u) {
      const float* a = x.data + r * features;
      const float* b = weight.data + u * features;
      double sum = 0.0;
      for (std::int64_t part = 0; part < 8; ++part) {
        float some = 0.0f;
        for (std::int64_t f = part * features / 8; f < (part + 1) * features / 8; ++f) some += a[f] * b[f];
        sum += some;
      }
      out.data[r * units + u] = sum + bias.data[u];
    }
}
