// Layer normalisation of whole images: each is summed in chunks by all threads, once for the mean, once for the variance.
#include <kernelwright.h>

#include <algorithm>

namespace {
constexpr std::int64_t kChunk = 4096;

// Chunk by chunk, so that the result does not depend on how chunks are shared out.
template <class Term>
float total(std::int64_t count, Term term) {
  float sum = 0.0f;
  const std::int64_t chunks = (count + kChunk - 1) / kChunk;
  for (std::int64_t c = 0; c < chunks; ++c) {
    float part = 0.0f;
#pragma omp simd reduction(+ : part)
    for (std::int64_t i = c * kChunk; i < std::min(count, (c + 1) * kChunk); ++i) part += term(i);
    sum += part;
  }
  return sum;
}
}  // namespace

void kernel(kw::Tensor<const float, 4> x, kw::Tensor<const float, 3> weight, kw::Tensor<const float, 3> bias,
            double eps, kw::Tensor<float, 4> out) {
  const std::int64_t batch = x.size(0), count = weight.numel();
#pragma omp parallel for schedule(static)
  for (std::int64_t n = 0; n < batch; ++n) {
    const float* __restrict in = x.data + n * count;
    float* __restrict to = out.data + n * count;
    const float mean = total(count, [&](std::int64_t i) { return in[i]; }) / count;
    const float var = total(count, [&](std::int64_t i) { return (in[i] - mean) * (in[i] - mean); }) / count;
    const float scale = 1.0f / std::sqrt(var + static_cast<float>(eps));
    for (std::int64_t i = 0; i < count; ++i) to[i] = (in[i] - mean) * scale * weight.data[i] + bias.data[i];
  }
}
