// Softmax with powers of two: one multiplication of the difference, and exp2.
#include <kernelwright.h>

#include <algorithm>

void kernel(kw::Tensor<const float, 2> x, kw::Tensor<float, 2> out) {
  const std::int64_t rows = x.size(0), cols = x.size(1);
#pragma omp parallel for schedule(static)
  for (std::int64_t r = 0; r < rows; ++r) {
    const float* in = x.data + r * cols;
    float* to = out.data + r * cols;
    const float largest = *std::max_element(in, in + cols);
    float sum = 0.0f;
    for (std::int64_t c = 0; c < cols; ++c) sum += to[c] = std::exp2((in[c] - largest) * 1.44269504f);
    const float scale = 1.0f / sum;
    for (std::int64_t c = 0; c < cols; ++c) to[c] *= scale;
  }
}
