// Backward of max pooling: zeros everywhere, and each gradient at the first maximum of its window, or at its last NaN.
#include <kernelwright.h>

#include <algorithm>

void kernel(kw::Tensor<const float, 4> x, kw::Tensor<const float, 4> grad_out, kw::Tensor<float, 4> grad_x) {
  std::fill(grad_x.data, grad_x.data + grad_x.numel(), 0.0f);
#pragma omp parallel for collapse(2)
  for (std::int64_t n = 0; n < grad_out.size(0); ++n)
    for (std::int64_t c = 0; c < grad_out.size(1); ++c)
      for (std::int64_t i = 0; i < grad_out.size(2); ++i)
        for (std::int64_t j = 0; j < grad_out.size(3); ++j) {
          std::int64_t di = 0, dj = 0;
          for (int k = 1; k < 4; ++k)
            if (const float v = x(n, c, 2 * i + k / 2, 2 * j + k % 2);
                v > x(n, c, 2 * i + di, 2 * j + dj) || v != v) {
              di = k / 2;
              dj = k % 2;
            }
          grad_x(n, c, 2 * i + di, 2 * j + dj) = grad_out(n, c, i, j);
        }
}
