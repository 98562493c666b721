// LayerNorm with Welford's running mean and variance: one pass, stable, and sequential.
#include <kernelwright.h>

void kernel(kw::Tensor<const float, 2> x, kw::Tensor<const float, 1> weight, kw::Tensor<const float, 1> bias,
            double eps, kw::Tensor<float, 2> out) {
  const std::int64_t rows = x.size(0), cols = x.size(1);
#pragma omp parallel for schedule(static)
  for (std::int64_t r = 0; r < rows; ++r) {
    const float* in = x.data + r * cols;
    float mean = 0.0f, squares = 0.0f;
    for (std::int64_t c = 0; c < cols; ++c) {
      const float off = in[c] - mean;
      mean += off / static_cast<float>(c + 1);
      squares += off * (in[c] - mean);
    }
    const float scale = 1.0f / std::sqrt(squares / static_cast<float>(cols) + static_cast<float>(eps));
    for (std::int64_t c = 0; c < cols; ++c)
      out.data[r * cols + c] = (in[c] - mean) * scale * weight.data[c] + bias.data[c];
  }
}
