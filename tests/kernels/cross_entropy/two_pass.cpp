// Cross entropy: the logarithm of each row's sum of exponentials less the target's logit, averaged over the rows.
#include <kernelwright.h>

#include <algorithm>

namespace {

constexpr std::int64_t kIgnored = -100;  // rows with this target do not count, as F.cross_entropy has it by default

}  // namespace

void kernel(kw::Tensor<const float, 2> logits, kw::Tensor<const std::int64_t, 1> target, kw::Tensor<float, 0> out) {
  const std::int64_t rows = logits.size(0), classes = logits.size(1);
  double total = 0.0;
  std::int64_t counted = 0;
#pragma omp parallel for schedule(static) reduction(+ : total, counted)
  for (std::int64_t r = 0; r < rows; ++r) {
    if (target.data[r] == kIgnored) continue;
    ++counted;
    const float* in = logits.data + r * classes;
    const float largest = *std::max_element(in, in + classes);
    float sum = 0.0f;
    for (std::int64_t c = 0; c < classes; ++c) sum += std::exp(in[c] - largest);
    total += std::log(sum) + largest - in[target.data[r]];
  }
  out() = static_cast<float>(total / static_cast<double>(counted));
}
