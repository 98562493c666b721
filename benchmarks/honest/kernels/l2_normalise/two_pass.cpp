// Rows of length one.
#include <kernelwright.h>

void kernel(kw::Tensor<const float, 2> x, kw::Tensor<float, 2> out) {
  const std::int64_t rows = x.size(0), cols = x.size(1);
#pragma omp parallel for schedule(static)
  for (std::int64_t r = 0; r < rows; ++r) {
    const float* in = x.data + r * cols;
    float* to = out.data + r * cols;
    float squares = 0.0f;
    for (std::int64_t c = 0; c < cols; ++c) squares += in[c] * in[c];
    const float length = std::sqrt(squares);
    for (std::int64_t c = 0; c < cols; ++c) to[c] = in[c] / length;
  }
}
