// Argmax by blocks: the maximum of a block is a vector reduction, and only the winning block is searched.
#include <kernelwright.h>

#include <algorithm>

void kernel(kw::Tensor<const float, 2> x, kw::Tensor<std::int64_t, 1> out) {
  constexpr std::int64_t kBlock = 256;
  const std::int64_t rows = x.size(0), cols = x.size(1);
#pragma omp parallel for schedule(static)
  for (std::int64_t r = 0; r < rows; ++r) {
    const float* in = x.data + r * cols;
    float best = in[0];
    std::int64_t winner = 0;
    for (std::int64_t begin = 0; begin < cols; begin += kBlock) {
      const std::int64_t end = std::min(begin + kBlock, cols);
      float largest = in[begin];
#pragma omp simd reduction(max : largest)
      for (std::int64_t c = begin; c < end; ++c) largest = std::max(largest, in[c]);
      if (largest > best) {
        best = largest;
        winner = begin;
      }
    }
    out.data[r] = std::find(in + winner, in + cols, best) - in;
  }
}
