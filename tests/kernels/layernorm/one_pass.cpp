// LayerNorm with sum and sum of squares in one pass. Both are taken around a guess of the mean, the average of the
// first elements, because without it the difference of two large sums would lose the variance.
#include <kernelwright.h>

#include <algorithm>

void kernel(kw::Tensor<const float, 2> x, kw::Tensor<const float, 1> weight, kw::Tensor<const float, 1> bias,
            double eps, kw::Tensor<float, 2> out) {
  const std::int64_t rows = x.size(0), cols = x.size(1);
  const std::int64_t few = std::min<std::int64_t>(cols, 16);
  const float* __restrict w = weight.data;
  const float* __restrict b = bias.data;
#pragma omp parallel for schedule(static)
  for (std::int64_t r = 0; r < rows; ++r) {
    const float* __restrict in = x.data + r * cols;
    float* __restrict to = out.data + r * cols;
    float guess = 0.0f;
    for (std::int64_t c = 0; c < few; ++c) guess += in[c];
    guess /= static_cast<float>(few);
    float sum = 0.0f, squares = 0.0f;
#pragma omp simd reduction(+ : sum, squares)
    for (std::int64_t c = 0; c < cols; ++c) {
      const float off = in[c] - guess;
      sum += off;
      squares += off * off;
    }
    const float off = sum / static_cast<float>(cols);
    const float variance = std::max(squares / static_cast<float>(cols) - off * off, 0.0f);
    const float scale = 1.0f / std::sqrt(variance + static_cast<float>(eps));
    const float mean = guess + off;
#pragma omp simd
    for (std::int64_t c = 0; c < cols; ++c) to[c] = (in[c] - mean) * scale * w[c] + b[c];
  }
}
