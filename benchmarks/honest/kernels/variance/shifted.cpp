// Unbiased variance in one pass around the mean of the first elements.
#include <kernelwright.h>

#include <algorithm>

void kernel(kw::Tensor<const float, 2> x, kw::Tensor<float, 1> out) {
  const std::int64_t rows = x.size(0), cols = x.size(1);
#pragma omp parallel for schedule(static)
  for (std::int64_t r = 0; r < rows; ++r) {
    const float* in = x.data + r * cols;
    float guess = 0.0f, sum = 0.0f, squares = 0.0f;
    const std::int64_t few = std::min<std::int64_t>(cols, 16);
    for (std::int64_t c = 0; c < few; ++c) guess += in[c] / static_cast<float>(few);
    for (std::int64_t c = 0; c < cols; ++c) {
      sum += in[c] - guess;
      squares += (in[c] - guess) * (in[c] - guess);
    }
    out.data[r] = (squares - sum * sum / static_cast<float>(cols)) / static_cast<float>(cols - 1);
  }
}
