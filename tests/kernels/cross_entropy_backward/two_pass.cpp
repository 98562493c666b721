// Backward of cross entropy: the probabilities, less one at the target, times the upstream gradient over the rows.
#include <kernelwright.h>

#include <algorithm>

namespace {

constexpr std::int64_t kIgnored = -100;  // rows with this target do not count, as F.cross_entropy has it by default

}  // namespace

void kernel(kw::Tensor<const float, 2> logits, kw::Tensor<const std::int64_t, 1> target,
            kw::Tensor<const float, 0> grad_out, kw::Tensor<float, 2> grad_logits) {
  const std::int64_t rows = logits.size(0), classes = logits.size(1);
  const std::int64_t counted = rows - std::count(target.data, target.data + rows, kIgnored);
  const float upstream = grad_out() / static_cast<float>(counted);
#pragma omp parallel for schedule(static)
  for (std::int64_t r = 0; r < rows; ++r) {
    const float* in = logits.data + r * classes;
    float* to = grad_logits.data + r * classes;
    if (target.data[r] == kIgnored) {
      std::fill_n(to, classes, 0.0f);
      continue;
    }
    const float largest = *std::max_element(in, in + classes);
    float sum = 0.0f;
    for (std::int64_t c = 0; c < classes; ++c) {
      to[c] = std::exp(in[c] - largest);
      sum += to[c];
    }
    for (std::int64_t c = 0; c < classes; ++c) to[c] = (to[c] / sum - (c == target.data[r])) * upstream;
  }
}
