// Mean squared error: a float32 sum for each row, and their sum.
#include <kernelwright.h>

void kernel(kw::Tensor<const float, 2> x, kw::Tensor<const float, 2> y, kw::Tensor<float, 0> out) {
  float total = 0.0f;
  for (std::int64_t r = 0; r < x.size(0); ++r) {
    float sum = 0.0f;
    for (std::int64_t c = 0; c < x.size(1); ++c) {
      const float off = x(r, c) - y(r, c);
      sum += off * off;
    }
    total += sum;
  }
  out() = total / static_cast<float>(x.numel());
}
