// Argmax by blocks: the maximum of a block is a vector reduction, and only the winning block is searched.
// A NaN in the row is found by adding up, block by block, what is zero for every other value.
#include <kernelwright.h>

#include <algorithm>
#include <limits>

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
      std::int32_t nans = 0;
#pragma omp simd reduction(max : largest) reduction(+ : nans)
      for (std::int64_t c = begin; c < end; ++c) {
        largest = std::max(largest, in[c]);
        nans += in[c] != in[c];
      }
      if (nans) {
        winner = begin;
        best = std::numeric_limits<float>::quiet_NaN();
        break;
      }
      if (largest > best) {
        best = largest;
        winner = begin;
      }
    }
    const bool nan = best != best;
    out.data[r] = std::find_if(in + winner, in + cols, [=](float v) { return nan ? v != v : v == best; }) - in;
  }
}
