// A transposed copy by tiles of 16 by 16.
#include <kernelwright.h>

#include <algorithm>

template <class T>
void kernel(kw::Tensor<const T, 2> x, kw::Tensor<T, 2> out) {
  const std::int64_t rows = x.size(0), cols = x.size(1);
#pragma omp parallel for schedule(static)
  for (std::int64_t first = 0; first < rows; first += 16)
    for (std::int64_t left = 0; left < cols; left += 16)
      for (std::int64_t r = first; r < std::min(first + 16, rows); ++r)
        for (std::int64_t c = left; c < std::min(left + 16, cols); ++c) out.data[c * rows + r] = x.data[r * cols + c];
}
