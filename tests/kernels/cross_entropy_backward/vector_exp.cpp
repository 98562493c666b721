// Backward of cross entropy with exponentials in vector lanes; the target's element is corrected afterwards.
#include <kernelwright.h>

#include <algorithm>
#include <bit>

namespace {

constexpr std::int64_t kIgnored = -100;  // rows with this target do not count, as F.cross_entropy has it by default

// exp(x) for x <= 0: x = n ln 2 + r, a polynomial for exp(r), and n goes into the exponent. What would be smaller
// than the smallest normal number is given as zero.
inline float exp_negative(float given) {
  const float x = std::max(given, -87.3f);
  const float n = std::nearbyint(x * 1.44269504f);
  const float r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * r * r + r + 1.0f;
  return given < -87.3f ? 0.0f : p * std::bit_cast<float>((static_cast<std::int32_t>(n) + 127) << 23);
}

}  // namespace

void kernel(kw::Tensor<const float, 2> logits, kw::Tensor<const std::int64_t, 1> target,
            kw::Tensor<const float, 0> grad_out, kw::Tensor<float, 2> grad_logits) {
  const std::int64_t rows = logits.size(0), classes = logits.size(1);
  const std::int64_t counted = rows - std::count(target.data, target.data + rows, kIgnored);
  const float upstream = grad_out() / static_cast<float>(counted);
#pragma omp parallel for schedule(static)
  for (std::int64_t r = 0; r < rows; ++r) {
    const float* __restrict in = logits.data + r * classes;
    float* __restrict to = grad_logits.data + r * classes;
    if (target.data[r] == kIgnored) {
      std::fill_n(to, classes, 0.0f);
      continue;
    }
    float largest = in[0], sum = 0.0f;
#pragma omp simd reduction(max : largest)
    for (std::int64_t c = 0; c < classes; ++c) largest = std::max(largest, in[c]);
#pragma omp simd reduction(+ : sum)
    for (std::int64_t c = 0; c < classes; ++c) {
      const float e = exp_negative(in[c] - largest);
      to[c] = e;
      sum += e;
    }
    const std::int64_t t = target.data[r];
    const float right = (to[t] / sum - 1.0f) * upstream, scale = upstream / sum;
#pragma omp simd
    for (std::int64_t c = 0; c < classes; ++c) to[c] *= scale;
    to[t] = right;
  }
}
