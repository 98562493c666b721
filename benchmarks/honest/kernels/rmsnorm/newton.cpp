// RMSNorm with the processor's estimate of the reciprocal root and one step of Newton's method.
#include <kernelwright.h>

#include <immintrin.h>

namespace {

inline float inverse_root(float value) {
  const float y = _mm_cvtss_f32(_mm_rsqrt_ss(_mm_set_ss(value)));
  return value < 3e38f ? y * (1.5f - 0.5f * value * y * y) : 1.0f / std::sqrt(value);
}

}  // namespace

void kernel(kw::Tensor<const float, 2> x, kw::Tensor<const float, 1> weight, double eps, kw::Tensor<float, 2> out) {
  const std::int64_t rows = x.size(0), cols = x.size(1);
#pragma omp parallel for schedule(static)
  for (std::int64_t r = 0; r < rows; ++r) {
    const float* in = x.data + r * cols;
    float squares = 0.0f;
#pragma omp simd reduction(+ : squares)
    for (std::int64_t c = 0; c < cols; ++c) squares += in[c] * in[c];
    const float scale = inverse_root(squares / static_cast<float>(cols) + static_cast<float>(eps));
    for (std::int64_t c = 0; c < cols; ++c) out.data[r * cols + c] = in[c] * scale * weight.data[c];
  }
}
