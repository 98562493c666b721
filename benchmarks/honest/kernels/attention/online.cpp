// Attention with an online softmax: scores are never stored.
#include <kernelwright.h>

#include <limits>
#include <vector>

void kernel(kw::Tensor<const float, 3> q, kw::Tensor<const float, 3> k, kw::Tensor<const float, 3> v,
            kw::Tensor<float, 3> out) {
  const std::int64_t keys = k.size(1), width = q.size(2);
  const float scale = 1.0f / std::sqrt(static_cast<float>(width));
#pragma omp parallel for collapse(2) schedule(static)
  for (std::int64_t n = 0; n < q.size(0); ++n)
    for (std::int64_t i = 0; i < q.size(1); ++i) {
      std::vector<float> sum(width, 0.0f);
      float largest = -std::numeric_limits<float>::infinity(), total = 0.0f;
      for (std::int64_t j = 0; j < keys; ++j) {
        float score = 0.0f;
        for (std::int64_t d = 0; d < width; ++d) score += q(n, i, d) * k(n, j, d);
        score *= scale;
        if (score == -std::numeric_limits<float>::infinity()) continue;
        if (score > largest || score != score) {
          const float again = std::exp(largest - score);
          total *= again;
          for (float& one : sum) one *= again;
          largest = score;
        }
        const float weight = std::exp(score - largest);
        total += weight;
        for (std::int64_t d = 0; d < width; ++d) sum[d] += weight * v(n, j, d);
      }
      for (std::int64_t d = 0; d < width; ++d) out(n, i, d) = sum[d] / total;
    }
}
