// Products of rows, in vector lanes.
#include <kernelwright.h>

template <class T>
void kernel(kw::Tensor<const T, 2> x, kw::Tensor<const T, 2> y, kw::Tensor<T, 1> out) {
  for (std::int64_t r = 0; r < x.size(0); ++r) {
    T sum = 0;
#pragma omp simd reduction(+ : sum)
    for (std::int64_t c = 0; c < x.size(1); ++c) sum += x.data[r * x.size(1) + c] * y.data[r * x.size(1) + c];
    out.data[r] = sum;
  }
}
