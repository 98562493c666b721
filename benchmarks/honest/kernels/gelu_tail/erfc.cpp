// GELU through erfc, whose tail keeps its digits where x is far below zero.
#include <kernelwright.h>

#include <type_traits>

namespace {

// Sixteen-bit numbers are computed with in float32, as the task allows.
template <class T>
using Wide = std::conditional_t<std::is_same_v<T, double>, double, float>;

}  // namespace

template <class T>
void kernel(kw::Tensor<const T, 2> x, kw::Tensor<T, 2> out) {
#pragma omp parallel for schedule(static)
  for (std::int64_t i = 0; i < x.numel(); ++i) {
    const Wide<T> v = x.data[i];
    out.data[i] = static_cast<T>(v * Wide<T>(0.5) * std::erfc(-v * Wide<T>(0.70710678118654752440)));
  }
}
