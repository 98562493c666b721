// Logarithm of a sum of exponentials, after the maximum is known.
#include <kernelwright.h>

void kernel(kw::Tensor<const float, 2> x, kw::Tensor<float, 1> out) {
  const std::int64_t rows = x.size(0), cols = x.size(1);
#pragma omp parallel for schedule(static)
  for (std::int64_t r = 0; r < rows; ++r) {
    const float* in = x.data + r * cols;
    float largest = in[0], sum = 0.0f;
    for (std::int64_t c = 1; c < cols; ++c) largest = in[c] > largest || in[c] != in[c] ? in[c] : largest;
    if (!std::isfinite(largest)) {
      out.data[r] = largest;
      continue;
    }
    for (std::int64_t c = 0; c < cols; ++c) sum += std::exp(in[c] - largest);
    out.data[r] = largest + std::log(sum);
  }
}
