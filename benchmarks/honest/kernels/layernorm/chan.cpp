// LayerNorm with Welford's method in blocks of 64, joined by Chan's rule.
#include <kernelwright.h>

#include <algorithm>

void kernel(kw::Tensor<const float, 2> x, kw::Tensor<const float, 1> weight, kw::Tensor<const float, 1> bias,
            double eps, kw::Tensor<float, 2> out) {
  const std::int64_t rows = x.size(0), cols = x.size(1);
#pragma omp parallel for schedule(static)
  for (std::int64_t r = 0; r < rows; ++r) {
    const float* in = x.data + r * cols;
    float mean = 0.0f, squares = 0.0f;
    for (std::int64_t first = 0; first < cols; first += 64) {
      const std::int64_t last = std::min(first + 64, cols);
      float sum = 0.0f, part = 0.0f;
      for (std::int64_t c = first; c < last; ++c) sum += in[c];
      const float count = static_cast<float>(last - first), of_block = sum / count;
      for (std::int64_t c = first; c < last; ++c) part += (in[c] - of_block) * (in[c] - of_block);
      const float off = of_block - mean, all = static_cast<float>(last);
      mean += off * (count / all);
      squares += part + off * off * (static_cast<float>(first) * count / all);
    }
    const float scale = 1.0f / std::sqrt(squares / static_cast<float>(cols) + static_cast<float>(eps));
    for (std::int64_t c = 0; c < cols; ++c)
      out.data[r * cols + c] = (in[c] - mean) * scale * weight.data[c] + bias.data[c];
  }
}
