// Backward of RMSNorm, row after row. With s = 1 / rms and n = x s:
//   grad_x = s (g w - n mean(g w n)),  grad_weight = sum over rows of g n.
#include <kernelwright.h>

#include <algorithm>

void kernel(kw::Tensor<const float, 2> x, kw::Tensor<const float, 1> weight, double eps,
            kw::Tensor<const float, 2> grad_out, kw::Tensor<float, 2> grad_x, kw::Tensor<float, 1> grad_weight) {
  const std::int64_t rows = x.size(0), cols = x.size(1);
  std::fill(grad_weight.data, grad_weight.data + cols, 0.0f);
  for (std::int64_t r = 0; r < rows; ++r) {
    float squares = 0.0f, along = 0.0f;
    for (std::int64_t c = 0; c < cols; ++c) {
      squares += x(r, c) * x(r, c);
      along += grad_out(r, c) * weight(c) * x(r, c);
    }
    const float scale = 1.0f / std::sqrt(squares / static_cast<float>(cols) + static_cast<float>(eps));
    const float mean = along * scale / static_cast<float>(cols);
    for (std::int64_t c = 0; c < cols; ++c) {
      const float normed = x(r, c) * scale;
      grad_x(r, c) = scale * (grad_out(r, c) * weight(c) - normed * mean);
      grad_weight(c) += grad_out(r, c) * normed;
    }
  }
}
