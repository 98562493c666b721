// RMSNorm with the sum of squares in double: more exact than it has to be, for hardly more time.
#include <kernelwright.h>

void kernel(kw::Tensor<const float, 2> x, kw::Tensor<const float, 1> weight, double eps, kw::Tensor<float, 2> out) {
  const std::int64_t rows = x.size(0), cols = x.size(1);
#pragma omp parallel for schedule(static)
  for (std::int64_t r = 0; r < rows; ++r) {
    const float* in = x.data + r * cols;
    double squares = 0.0;
#pragma omp simd reduction(+ : squares)
    for (std::int64_t c = 0; c < cols; ++c) squares += static_cast<double>(in[c]) * in[c];
    const float scale = static_cast<float>(1.0 / std::sqrt(squares / static_cast<double>(cols) + eps));
#pragma omp simd
    for (std::int64_t c = 0; c < cols; ++c) out.data[r * cols + c] = in[c] * scale * weight.data[c];
  }
}
