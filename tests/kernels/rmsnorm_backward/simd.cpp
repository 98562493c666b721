// Backward of RMSNorm, rows in parallel. Each thread sums the weight's gradient over its own rows; the partial sums
// are added at the end in the order of the threads, so that the result does not depend on who finishes first.
#include <kernelwright.h>
#include <omp.h>

#include <vector>

void kernel(kw::Tensor<const float, 2> x, kw::Tensor<const float, 1> weight, double eps,
            kw::Tensor<const float, 2> grad_out, kw::Tensor<float, 2> grad_x, kw::Tensor<float, 1> grad_weight) {
  const std::int64_t rows = x.size(0), cols = x.size(1);
  const float* __restrict w = weight.data;
  std::vector<float> partial(static_cast<std::size_t>(omp_get_max_threads() * cols), 0.0f);
#pragma omp parallel
  {
    float* __restrict mine = partial.data() + omp_get_thread_num() * cols;
#pragma omp for schedule(static)
    for (std::int64_t r = 0; r < rows; ++r) {
      const float* __restrict in = x.data + r * cols;
      const float* __restrict g = grad_out.data + r * cols;
      float* __restrict to = grad_x.data + r * cols;
      float squares = 0.0f, along = 0.0f;
#pragma omp simd reduction(+ : squares, along)
      for (std::int64_t c = 0; c < cols; ++c) {
        squares += in[c] * in[c];
        along += g[c] * w[c] * in[c];
      }
      const float scale = 1.0f / std::sqrt(squares / static_cast<float>(cols) + static_cast<float>(eps));
      const float mean = along * scale / static_cast<float>(cols);
#pragma omp simd
      for (std::int64_t c = 0; c < cols; ++c) {
        const float normed = in[c] * scale;
        to[c] = scale * (g[c] * w[c] - normed * mean);
        mine[c] += g[c] * normed;
      }
    }
#pragma omp for schedule(static)
    for (std::int64_t c = 0; c < cols; ++c) {
      float sum = 0.0f;
      for (std::int64_t t = 0; t < omp_get_num_threads(); ++t) sum += partial[static_cast<std::size_t>(t * cols + c)];
      grad_weight.data[c] = sum;
    }
  }
}
