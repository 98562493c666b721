// Argmax: the first largest value of each row, by comparing one after another. The first NaN is larger than all.
#include <kernelwright.h>

void kernel(kw::Tensor<const float, 2> x, kw::Tensor<std::int64_t, 1> out) {
  const std::int64_t rows = x.size(0), cols = x.size(1);
#pragma omp parallel for schedule(static)
  for (std::int64_t r = 0; r < rows; ++r) {
    const float* in = x.data + r * cols;
    std::int64_t best = 0;
    for (std::int64_t c = 1; c < cols && in[best] == in[best]; ++c)
      if (in[c] > in[best] || in[c] != in[c]) best = c;
    out.data[r] = best;
  }
}
