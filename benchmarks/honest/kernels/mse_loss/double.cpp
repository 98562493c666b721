// Mean squared error, added up in double.
#include <kernelwright.h>

void kernel(kw::Tensor<const float, 2> x, kw::Tensor<const float, 2> y, kw::Tensor<float, 0> out) {
  double sum = 0.0;
#pragma omp parallel for schedule(static) reduction(+ : sum)
  for (std::int64_t i = 0; i < x.numel(); ++i) {
    const float off = x.data[i] - y.data[i];
    sum += static_cast<double>(off) * off;
  }
  out() = static_cast<float>(sum / static_cast<double>(x.numel()));
}
