// Max pooling, one output line at a time: all lines of all images are independent, and each is a vector loop.
#include <kernelwright.h>

namespace {

// The larger of two; NaN if either is, as in PyTorch. std::max would drop a NaN on its right.
inline float larger(float a, float b) { return b > a || b != b ? b : a; }

}  // namespace

void kernel(kw::Tensor<const float, 4> x, kw::Tensor<float, 4> out) {
  const std::int64_t height = x.size(2), width = x.size(3), lines = out.size(2), length = out.size(3);
  const std::int64_t all = out.size(0) * out.size(1) * lines;
#pragma omp parallel for schedule(static)
  for (std::int64_t line = 0; line < all; ++line) {
    const float* __restrict upper = x.data + (line / lines * height + line % lines * 2) * width;
    const float* __restrict lower = upper + width;
    float* __restrict to = out.data + line * length;
#pragma omp simd
    for (std::int64_t j = 0; j < length; ++j)
      to[j] = larger(larger(upper[2 * j], upper[2 * j + 1]), larger(lower[2 * j], lower[2 * j + 1]));
  }
}
