// Attention row by row: all scores of a query, their softmax, and the mean of the values.
#include <kernelwright.h>

#include <algorithm>
#include <vector>

void kernel(kw::Tensor<const float, 3> q, kw::Tensor<const float, 3> k, kw::Tensor<const float, 3> v,
            kw::Tensor<float, 3> out) {
  const std::int64_t keys = k.size(1), width = q.size(2);
  const float scale = std::sqrt(static_cast<float>(width));
#pragma omp parallel for collapse(2) schedule(static)
  for (std::int64_t n = 0; n < q.size(0); ++n)
    for (std::int64_t i = 0; i < q.size(1); ++i) {
      std::vector<float> scores(keys);
      for (std::int64_t j = 0; j < keys; ++j) {
        float score = 0.0f;
        for (std::int64_t d = 0; d < width; ++d) score += q(n, i, d) * k(n, j, d);
        scores[j] = score / scale;
      }
      const float largest = *std::max_element(scores.begin(), scores.end());
      float total = 0.0f;
      for (float& score : scores) total += score = std::exp(score - largest);
      for (std::int64_t d = 0; d < width; ++d) {
        float sum = 0.0f;
        for (std::int64_t j = 0; j < keys; ++j) sum += scores[j] / total * v(n, j, d);
        out(n, i, d) = sum;
      }
    }
}
