// Hyperbolic tangent by expm1, which keeps the digits near zero.
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
    out.data[i] = static_cast<T>(std::abs(v) > 20 ? std::copysign(Wide<T>(1), v)
                                                   : std::expm1(2 * v) / (std::expm1(2 * v) + 2));
  }
}
