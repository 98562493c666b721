// Online softmax: maximum and sum come from one pass, in which the sum is rescaled when the maximum grows.
#include <kernelwright.h>

#include <limits>

void kernel(kw::Tensor<const float, 2> x, kw::Tensor<float, 2> out) {
  const std::int64_t rows = x.size(0), cols = x.size(1);
#pragma omp parallel for schedule(static)
  for (std::int64_t r = 0; r < rows; ++r) {
    const float* in = x.data + r * cols;
    float largest = -std::numeric_limits<float>::infinity(), sum = 0.0f;
    for (std::int64_t c = 0; c < cols; ++c) {
      if (in[c] > largest) {
        sum *= std::exp(largest - in[c]);
        largest = in[c];
      }
      if (in[c] != -std::numeric_limits<float>::infinity()) sum += std::exp(in[c] - largest);
    }
    for (std::int64_t c = 0; c < cols; ++c) out.data[r * cols + c] = std::exp(in[c] - largest) / sum;
  }
}
