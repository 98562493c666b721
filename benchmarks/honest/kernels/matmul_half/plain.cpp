// Products of 16-bit factors in float32, rounded once at the end.
#include <kernelwright.h>

template <class T>
void kernel(kw::Tensor<const T, 2> a, kw::Tensor<const T, 2> b, kw::Tensor<T, 2> out) {
#pragma omp parallel for schedule(static)
  for (std::int64_t i = 0; i < out.size(0); ++i)
    for (std::int64_t j = 0; j < out.size(1); ++j) {
      float sum = 0.0f;
      for (std::int64_t k = 0; k < a.size(1); ++k) sum += static_cast<float>(a(i, k)) * static_cast<float>(b(k, j));
      out(i, j) = static_cast<T>(sum);
    }
}
