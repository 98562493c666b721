// Backward of max pooling without branches: each element of a window takes the gradient if it beats those before it
// and is not beaten by those behind it. A NaN beats everything. Every element is written once, odd edges included.
#include <kernelwright.h>

#include <algorithm>

namespace {

inline bool beats(float later, float earlier) { return later > earlier || later != later; }

}  // namespace

void kernel(kw::Tensor<const float, 4> x, kw::Tensor<const float, 4> grad_out, kw::Tensor<float, 4> grad_x) {
  const std::int64_t height = x.size(2), width = x.size(3), lines = grad_out.size(2), length = grad_out.size(3);
  const std::int64_t images = x.size(0) * x.size(1);
#pragma omp parallel for schedule(static)
  for (std::int64_t image = 0; image < images; ++image) {
    for (std::int64_t i = 0; i < lines; ++i) {
      const float* __restrict upper = x.data + (image * height + 2 * i) * width;
      const float* __restrict lower = upper + width;
      const float* __restrict g = grad_out.data + (image * lines + i) * length;
      float* __restrict to_upper = grad_x.data + (image * height + 2 * i) * width;
      float* __restrict to_lower = to_upper + width;
#pragma omp simd
      for (std::int64_t j = 0; j < length; ++j) {
        const float a = upper[2 * j], b = upper[2 * j + 1], c = lower[2 * j], d = lower[2 * j + 1];
        const bool right = beats(b, a), lower_right = beats(d, c), below = beats(lower_right ? d : c, right ? b : a);
        const float up = below ? 0.0f : g[j], down = below ? g[j] : 0.0f;
        to_upper[2 * j] = right ? 0.0f : up;
        to_upper[2 * j + 1] = right ? up : 0.0f;
        to_lower[2 * j] = lower_right ? 0.0f : down;
        to_lower[2 * j + 1] = lower_right ? down : 0.0f;
      }
      if (width % 2) to_upper[width - 1] = to_lower[width - 1] = 0.0f;
    }
    if (height % 2) std::fill_n(grad_x.data + (image * height + height - 1) * width, width, 0.0f);
  }
}
