// Backward of LayerNorm, rows in parallel, with a partial sum of the two vector gradients for each thread.
#include <kernelwright.h>
#include <omp.h>

#include <vector>

void kernel(kw::Tensor<const float, 2> x, kw::Tensor<const float, 1> weight, kw::Tensor<const float, 1>, double eps,
            kw::Tensor<const float, 2> grad_out, kw::Tensor<float, 2> grad_x, kw::Tensor<float, 1> grad_weight,
            kw::Tensor<float, 1> grad_bias) {
  const std::int64_t rows = x.size(0), cols = x.size(1);
  const float count = static_cast<float>(cols);
  const float* __restrict w = weight.data;
  std::vector<float> partial(static_cast<std::size_t>(omp_get_max_threads() * 2 * cols), 0.0f);
#pragma omp parallel
  {
    float* __restrict of_weight = partial.data() + omp_get_thread_num() * 2 * cols;
    float* __restrict of_bias = of_weight + cols;
#pragma omp for schedule(static)
    for (std::int64_t r = 0; r < rows; ++r) {
      const float* __restrict in = x.data + r * cols;
      const float* __restrict g = grad_out.data + r * cols;
      float* __restrict to = grad_x.data + r * cols;
      float sum = 0.0f, squares = 0.0f, plain = 0.0f, along = 0.0f;
#pragma omp simd reduction(+ : sum)
      for (std::int64_t c = 0; c < cols; ++c) sum += in[c];
      const float mean = sum / count;
#pragma omp simd reduction(+ : squares, plain, along)
      for (std::int64_t c = 0; c < cols; ++c) {
        const float off = in[c] - mean;
        squares += off * off;
        plain += g[c] * w[c];
        along += g[c] * w[c] * off;
      }
      const float scale = 1.0f / std::sqrt(squares / count + static_cast<float>(eps));
      const float shift = plain / count, slope = along * scale / count;
#pragma omp simd
      for (std::int64_t c = 0; c < cols; ++c) {
        const float normed = (in[c] - mean) * scale;
        to[c] = scale * (g[c] * w[c] - shift - normed * slope);
        of_weight[c] += g[c] * normed;
        of_bias[c] += g[c];
      }
    }
#pragma omp for schedule(static)
    for (std::int64_t c = 0; c < cols; ++c) {
      float sum_weight = 0.0f, sum_bias = 0.0f;
      for (std::int64_t t = 0; t < omp_get_num_threads(); ++t) {
        sum_weight += partial[static_cast<std::size_t>(t * 2 * cols + c)];
        sum_bias += partial[static_cast<std::size_t>((t * 2 + 1) * cols + c)];
      }
      grad_weight.data[c] = sum_weight;
      grad_bias.data[c] = sum_bias;
    }
  }
}
