// Normalisation of groups of four channels, in two passes.
#include <kernelwright.h>

void kernel(kw::Tensor<const float, 3> x, kw::Tensor<const float, 1> weight, kw::Tensor<const float, 1> bias,
            double eps, kw::Tensor<float, 3> out) {
  const std::int64_t pixels = x.size(2), size = 4 * pixels, groups = x.size(0) * x.size(1) / 4;
#pragma omp parallel for schedule(static)
  for (std::int64_t g = 0; g < groups; ++g) {
    const float* in = x.data + g * size;
    float sum = 0.0f, squares = 0.0f;
#pragma omp simd reduction(+ : sum)
    for (std::int64_t i = 0; i < size; ++i) sum += in[i];
    const float mean = sum / static_cast<float>(size);
#pragma omp simd reduction(+ : squares)
    for (std::int64_t i = 0; i < size; ++i) squares += (in[i] - mean) * (in[i] - mean);
    const float scale = 1.0f / std::sqrt(squares / static_cast<float>(size) + static_cast<float>(eps));
    for (std::int64_t i = 0; i < size; ++i) {
      const std::int64_t c = (g * 4 + i / pixels) % x.size(1);
      out.data[g * size + i] = (in[i] - mean) * scale * weight(c) + bias(c);
    }
  }
}
