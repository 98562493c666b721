// One of two values, without a branch.
#include <kernelwright.h>

template <class T>
void kernel(kw::Tensor<const bool, 2> mask, kw::Tensor<const T, 2> x, kw::Tensor<const T, 2> y, kw::Tensor<T, 2> out) {
#pragma omp parallel for schedule(static)
  for (std::int64_t i = 0; i < out.numel(); ++i) out.data[i] = mask.data[i] ? x.data[i] : y.data[i];
}
