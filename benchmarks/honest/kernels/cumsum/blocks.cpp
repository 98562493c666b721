// Running sums in blocks of 32, whose totals are added up apart.
#include <kernelwright.h>

#include <algorithm>

void kernel(kw::Tensor<const float, 2> x, kw::Tensor<float, 2> out) {
  const std::int64_t rows = x.size(0), cols = x.size(1);
#pragma omp parallel for schedule(static)
  for (std::int64_t r = 0; r < rows; ++r) {
    const float* in = x.data + r * cols;
    float* to = out.data + r * cols;
    float before = 0.0f;
    for (std::int64_t first = 0; first < cols; first += 32) {
      float sum = 0.0f;
      for (std::int64_t c = first; c < std::min(first + 32, cols); ++c) {
        sum += in[c];
        to[c] = before + sum;
      }
      before += sum;
    }
  }
}
