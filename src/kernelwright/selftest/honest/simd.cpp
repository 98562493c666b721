// RMSNorm, rows in parallel and columns in vector lanes; the second pass finds the row in the cache.
#include <kernelwright.h>

void kernel(kw::Tensor<const float, 2> x, kw::Tensor<const float, 1> weight, double eps, kw::Tensor<float, 2> out) {
  const std::int64_t rows = x.size(0), cols = x.size(1);
  const float* __restrict w = weight.data;
#pragma omp parallel for schedule(static)
  for (std::int64_t r = 0; r < rows; ++r) {
    const float* __restrict in = x.data + r * cols;
    float* __restrict to = out.data + r * cols;
    float squares = 0.0f;
#pragma omp simd reduction(+ : squares)
    for (std::int64_t c = 0; c < cols; ++c) squares += in[c] * in[c];
    const float scale = 1.0f / std::sqrt(squares / static_cast<float>(cols) + static_cast<float>(eps));
#pragma omp simd
    for (std::int64_t c = 0; c < cols; ++c) to[c] = in[c] * scale * w[c];
  }
}
