// Backward of softmax with exponentials in vector lanes; the output holds them between the passes.
#include <kernelwright.h>

#include <algorithm>
#include <bit>

namespace {

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

void kernel(kw::Tensor<const float, 2> x, kw::Tensor<const float, 2> grad_out, kw::Tensor<float, 2> grad_x) {
  const std::int64_t rows = x.size(0), cols = x.size(1);
#pragma omp parallel for schedule(static)
  for (std::int64_t r = 0; r < rows; ++r) {
    const float* __restrict in = x.data + r * cols;
    const float* __restrict g = grad_out.data + r * cols;
    float* __restrict to = grad_x.data + r * cols;
    float largest = in[0], sum = 0.0f, along = 0.0f;
#pragma omp simd reduction(max : largest)
    for (std::int64_t c = 0; c < cols; ++c) largest = std::max(largest, in[c]);
#pragma omp simd reduction(+ : sum, along)
    for (std::int64_t c = 0; c < cols; ++c) {
      const float e = exp_negative(in[c] - largest);
      to[c] = e;
      sum += e;
      along += e * g[c];
    }
    const float scale = 1.0f / sum, mean = along / sum;
#pragma omp simd
    for (std::int64_t c = 0; c < cols; ++c) to[c] = to[c] * scale * (g[c] - mean);
  }
}
