// Huber loss by cases.
#include <kernelwright.h>

template <class T>
void kernel(kw::Tensor<const T, 2> x, kw::Tensor<const T, 2> y, kw::Tensor<T, 2> out) {
#pragma omp parallel for schedule(static)
  for (std::int64_t i = 0; i < out.numel(); ++i) {
    const float off = std::fabs(static_cast<float>(x.data[i]) - static_cast<float>(y.data[i]));
    out.data[i] = static_cast<T>(off < 1.0f ? 0.5f * off * off : off - 0.5f);
  }
}
