// Sums of whole numbers, in vector lanes.
#include <kernelwright.h>

void kernel(kw::Tensor<const std::int32_t, 2> x, kw::Tensor<std::int64_t, 1> out) {
  const std::int64_t rows = x.size(0), cols = x.size(1);
#pragma omp parallel for schedule(static)
  for (std::int64_t r = 0; r < rows; ++r) {
    const std::int32_t* in = x.data + r * cols;
    std::int64_t sum = 0;
#pragma omp simd reduction(+ : sum)
    for (std::int64_t c = 0; c < cols; ++c) sum += in[c];
    out.data[r] = sum;
  }
}
