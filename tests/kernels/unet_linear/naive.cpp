// Linear layer on every token: a dot product for each output, tokens in parallel.
#include <kernelwright.h>

void kernel(kw::Tensor<const float, 3> x, kw::Tensor<const float, 2> weight, kw::Tensor<const float, 1> bias,
            kw::Tensor<float, 3> out) {
  const std::int64_t rows = x.size(0) * x.size(1), features = x.size(2), units = weight.size(0);
#pragma omp parallel for schedule(static)
  for (std::int64_t r = 0; r < rows; ++r) {
    const float* __restrict in = x.data + r * features;
    for (std::int64_t u = 0; u < units; ++u) {
      const float* __restrict w = weight.data + u * features;
      float sum = 0.0f;
#pragma omp simd reduction(+ : sum)
      for (std::int64_t f = 0; f < features; ++f) sum += in[f] * w[f];
      out.data[r * units + u] = sum + bias.data[u];
    }
  }
}
