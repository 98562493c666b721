// Max pooling, window by window, through the views.
#include <kernelwright.h>

namespace {

// The larger of two; NaN if either is, as in PyTorch. std::max would drop a NaN on its right.
inline float larger(float a, float b) { return b > a || b != b ? b : a; }

}  // namespace

void kernel(kw::Tensor<const float, 4> x, kw::Tensor<float, 4> out) {
#pragma omp parallel for collapse(2)
  for (std::int64_t n = 0; n < out.size(0); ++n)
    for (std::int64_t c = 0; c < out.size(1); ++c)
      for (std::int64_t i = 0; i < out.size(2); ++i)
        for (std::int64_t j = 0; j < out.size(3); ++j)
          out(n, c, i, j) = larger(larger(x(n, c, 2 * i, 2 * j), x(n, c, 2 * i, 2 * j + 1)),
                                   larger(x(n, c, 2 * i + 1, 2 * j), x(n, c, 2 * i + 1, 2 * j + 1)));
}
