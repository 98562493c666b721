// A basic ResNet block: both convolutions row by row, the values between them kept in one buffer.
#include <kernelwright.h>

#include <algorithm>
#include <vector>

namespace {
// One row of a 3 by 3 convolution with padding 1, over all channels of an image.
void convolved(const float* image, const float* filter, std::int64_t channels, std::int64_t height, std::int64_t width,
               std::int64_t i, float* __restrict to) {
  std::fill(to, to + width, 0.0f);
  for (std::int64_t c = 0; c < channels; ++c)
    for (std::int64_t a = -1; a <= 1; ++a) {
      if (i + a < 0 || i + a >= height) continue;
      const float* __restrict in = image + (c * height + i + a) * width;
      for (std::int64_t b = -1; b <= 1; ++b) {
        const float w = filter[c * 9 + (a + 1) * 3 + b + 1];
        const std::int64_t from = std::max<std::int64_t>(0, -b), until = std::min(width, width - b);
        for (std::int64_t j = from; j < until; ++j) to[j] += w * in[j + b];
      }
    }
}
}  // namespace

using Vector = kw::Tensor<const float, 1>;

void kernel(kw::Tensor<const float, 4> x, kw::Tensor<const float, 4> conv1, Vector scale1, Vector shift1, Vector mean1,
            Vector var1, kw::Tensor<const float, 4> conv2, Vector scale2, Vector shift2, Vector mean2, Vector var2,
            double eps, kw::Tensor<float, 4> out) {
  const std::int64_t batch = x.size(0), channels = x.size(1), height = x.size(2), width = x.size(3);
  const std::int64_t image = channels * height * width;
  std::vector<float> inner(batch * image);
#pragma omp parallel
  {
#pragma omp for collapse(2) schedule(static)
    for (std::int64_t n = 0; n < batch; ++n)
      for (std::int64_t k = 0; k < channels; ++k) {
        const float scale = scale1(k) / std::sqrt(var1(k) + static_cast<float>(eps));
        for (std::int64_t i = 0; i < height; ++i) {
          float* to = inner.data() + n * image + (k * height + i) * width;
          convolved(x.data + n * image, &conv1(k, 0, 0, 0), channels, height, width, i, to);
          for (std::int64_t j = 0; j < width; ++j) to[j] = std::max((to[j] - mean1(k)) * scale + shift1(k), 0.0f);
        }
      }
#pragma omp for collapse(2) schedule(static)
    for (std::int64_t n = 0; n < batch; ++n)
      for (std::int64_t k = 0; k < channels; ++k) {
        const float scale = scale2(k) / std::sqrt(var2(k) + static_cast<float>(eps));
        for (std::int64_t i = 0; i < height; ++i) {
          float* to = &out(n, k, i, 0);
          const float* in = &x(n, k, i, 0);
          convolved(inner.data() + n * image, &conv2(k, 0, 0, 0), channels, height, width, i, to);
          for (std::int64_t j = 0; j < width; ++j)
            to[j] = std::max((to[j] - mean2(k)) * scale + shift2(k) + in[j], 0.0f);
        }
      }
  }
}
