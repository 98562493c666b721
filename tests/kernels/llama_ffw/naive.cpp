// SwiGLU feed-forward: one token at a time, its inner values in a buffer of each thread.
#include <kernelwright.h>

#include <vector>

namespace {
float dot(const float* __restrict a, const float* __restrict b, std::int64_t count) {
  float sum = 0.0f;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t i = 0; i < count; ++i) sum += a[i] * b[i];
  return sum;
}
}  // namespace

void kernel(kw::Tensor<const float, 3> x, kw::Tensor<const float, 2> gate, kw::Tensor<const float, 2> up,
            kw::Tensor<const float, 2> down, kw::Tensor<float, 3> out) {
  const std::int64_t tokens = x.size(0) * x.size(1), features = x.size(2), inner = gate.size(0);
#pragma omp parallel
  {
    std::vector<float> hidden(inner);
#pragma omp for schedule(static)
    for (std::int64_t t = 0; t < tokens; ++t) {
      const float* in = x.data + t * features;
      for (std::int64_t h = 0; h < inner; ++h) {
        const float g = dot(in, gate.data + h * features, features);
        hidden[h] = g / (1.0f + std::exp(-g)) * dot(in, up.data + h * features, features);
      }
      for (std::int64_t f = 0; f < features; ++f)
        out.data[t * features + f] = dot(hidden.data(), down.data + f * inner, inner);
    }
  }
}
