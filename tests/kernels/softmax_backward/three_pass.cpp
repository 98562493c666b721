// Backward of softmax: the probabilities again, p, and then grad_x = p (g - sum(p g)).
#include <kernelwright.h>

#include <algorithm>

void kernel(kw::Tensor<const float, 2> x, kw::Tensor<const float, 2> grad_out, kw::Tensor<float, 2> grad_x) {
  const std::int64_t rows = x.size(0), cols = x.size(1);
#pragma omp parallel for schedule(static)
  for (std::int64_t r = 0; r < rows; ++r) {
    const float* in = x.data + r * cols;
    const float* g = grad_out.data + r * cols;
    float* to = grad_x.data + r * cols;
    const float largest = *std::max_element(in, in + cols);
    float sum = 0.0f, along = 0.0f;
    for (std::int64_t c = 0; c < cols; ++c) {
      to[c] = std::exp(in[c] - largest);
      sum += to[c];
      along += to[c] * g[c];
    }
    for (std::int64_t c = 0; c < cols; ++c) to[c] = to[c] / sum * (g[c] - along / sum);
  }
}
