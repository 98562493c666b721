// Backward of LayerNorm, row after row. With n = (x - mean) s and d = g w:
//   grad_x = s (d - mean(d) - n mean(d n)),  grad_weight = sum of g n,  grad_bias = sum of g.
#include <kernelwright.h>

#include <algorithm>

void kernel(kw::Tensor<const float, 2> x, kw::Tensor<const float, 1> weight, kw::Tensor<const float, 1>, double eps,
            kw::Tensor<const float, 2> grad_out, kw::Tensor<float, 2> grad_x, kw::Tensor<float, 1> grad_weight,
            kw::Tensor<float, 1> grad_bias) {
  const std::int64_t rows = x.size(0), cols = x.size(1);
  const float count = static_cast<float>(cols);
  std::fill(grad_weight.data, grad_weight.data + cols, 0.0f);
  std::fill(grad_bias.data, grad_bias.data + cols, 0.0f);
  for (std::int64_t r = 0; r < rows; ++r) {
    float sum = 0.0f, squares = 0.0f, plain = 0.0f, along = 0.0f;
    for (std::int64_t c = 0; c < cols; ++c) sum += x(r, c);
    const float mean = sum / count;
    for (std::int64_t c = 0; c < cols; ++c) squares += (x(r, c) - mean) * (x(r, c) - mean);
    const float scale = 1.0f / std::sqrt(squares / count + static_cast<float>(eps));
    for (std::int64_t c = 0; c < cols; ++c) {
      plain += grad_out(r, c) * weight(c);
      along += grad_out(r, c) * weight(c) * (x(r, c) - mean) * scale;
    }
    for (std::int64_t c = 0; c < cols; ++c) {
      const float normed = (x(r, c) - mean) * scale;
      grad_x(r, c) = scale * (grad_out(r, c) * weight(c) - plain / count - normed * (along / count));
      grad_weight(c) += grad_out(r, c) * normed;
      grad_bias(c) += grad_out(r, c);
    }
  }
}
