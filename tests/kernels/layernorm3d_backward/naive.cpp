// Backward of LayerNorm over whole images. With n = (x - mean) s and d = g w:
//   grad_x = s (d - mean(d) - n mean(d n)),  grad_weight = sum of g n,  grad_bias = sum of g, over the batch.
#include <kernelwright.h>

#include <algorithm>

namespace {
constexpr std::int64_t kChunk = 4096;

template <class Term>
float total(std::int64_t count, Term term) {
  float sum = 0.0f;
  for (std::int64_t start = 0; start < count; start += kChunk) {
    float part = 0.0f;
    for (std::int64_t i = start; i < std::min(count, start + kChunk); ++i) part += term(i);
    sum += part;
  }
  return sum;
}
}  // namespace

void kernel(kw::Tensor<const float, 4> x, kw::Tensor<const float, 3> weight, kw::Tensor<const float, 3>, double eps,
            kw::Tensor<const float, 4> grad_out, kw::Tensor<float, 4> grad_x, kw::Tensor<float, 3> grad_weight,
            kw::Tensor<float, 3> grad_bias) {
  const std::int64_t batch = x.size(0), count = weight.numel();
  const float* w = weight.data;
  std::fill(grad_weight.data, grad_weight.data + count, 0.0f);
  std::fill(grad_bias.data, grad_bias.data + count, 0.0f);
  for (std::int64_t n = 0; n < batch; ++n) {
    const float *in = x.data + n * count, *g = grad_out.data + n * count;
    const float mean = total(count, [&](std::int64_t i) { return in[i]; }) / count;
    const float var = total(count, [&](std::int64_t i) { return (in[i] - mean) * (in[i] - mean); }) / count;
    const float scale = 1.0f / std::sqrt(var + static_cast<float>(eps));
    const float plain = total(count, [&](std::int64_t i) { return g[i] * w[i]; }) / count;
    const float along = total(count, [&](std::int64_t i) { return g[i] * w[i] * (in[i] - mean) * scale; }) / count;
    for (std::int64_t i = 0; i < count; ++i) {
      const float normed = (in[i] - mean) * scale;
      grad_x.data[n * count + i] = scale * (g[i] * w[i] - plain - normed * along);
      grad_weight.data[i] += g[i] * normed;
      grad_bias.data[i] += g[i];
    }
  }
}
