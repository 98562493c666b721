// Convolution, ReLU and pooling in one pass: two rows of the convolution at a time, in a buffer of each thread.
#include <kernelwright.h>

#include <algorithm>
#include <vector>

namespace {

// The larger of two; NaN if either is, as in PyTorch. std::max would drop a NaN on its right.
inline float larger(float a, float b) { return b > a || b != b ? b : a; }

}  // namespace

void kernel(kw::Tensor<const float, 4> x, kw::Tensor<const float, 4> weight, kw::Tensor<const float, 1> bias,
            kw::Tensor<float, 4> out) {
  const std::int64_t channels = x.size(1), filters = weight.size(0), width = x.size(3) - 2;
#pragma omp parallel
  {
    std::vector<float> rows(2 * width);
#pragma omp for collapse(2) schedule(static)
    for (std::int64_t n = 0; n < x.size(0); ++n)
      for (std::int64_t k = 0; k < filters; ++k)
        for (std::int64_t i = 0; i < out.size(2); ++i) {
          for (std::int64_t r = 0; r < 2; ++r) {
            float* __restrict to = rows.data() + r * width;
            std::fill(to, to + width, bias(k));
            for (std::int64_t c = 0; c < channels; ++c)
              for (std::int64_t a = 0; a < 3; ++a)
                for (std::int64_t b = 0; b < 3; ++b) {
                  const float w = weight(k, c, a, b);
                  const float* __restrict in = &x(n, c, 2 * i + r + a, b);
                  for (std::int64_t j = 0; j < width; ++j) to[j] += w * in[j];
                }
          }
          const float *above = rows.data(), *below = above + width;
          for (std::int64_t j = 0; j < out.size(3); ++j) {
            const float largest =
                larger(larger(above[2 * j], above[2 * j + 1]), larger(below[2 * j], below[2 * j + 1]));
            out(n, k, i, j) = std::max(largest, 0.0f);
          }
        }
  }
}
