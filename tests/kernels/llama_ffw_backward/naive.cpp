// Backward of a SwiGLU feed-forward: gradients of the inner values first, kept for all tokens, then those of the weights.
#include <kernelwright.h>

#include <algorithm>
#include <vector>

namespace {
// to += factor * from
void add(float* __restrict to, const float* __restrict from, float factor, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) to[i] += factor * from[i];
}
}  // namespace

void kernel(kw::Tensor<const float, 3> x, kw::Tensor<const float, 2> gate, kw::Tensor<const float, 2> up,
            kw::Tensor<const float, 2> down, kw::Tensor<const float, 3> saved_gate,
            kw::Tensor<const float, 3> saved_up, kw::Tensor<const float, 3> grad_out, kw::Tensor<float, 3> grad_x,
            kw::Tensor<float, 2> grad_gate, kw::Tensor<float, 2> grad_up, kw::Tensor<float, 2> grad_down) {
  const std::int64_t tokens = x.size(0) * x.size(1), features = x.size(2), inner = gate.size(0);
  std::vector<float> to_gate(tokens * inner), to_up(tokens * inner), hidden(tokens * inner);
#pragma omp parallel
  {
#pragma omp for schedule(static)
    for (std::int64_t t = 0; t < tokens; ++t) {
      float *gates = to_gate.data() + t * inner, *ups = to_up.data() + t * inner;
      std::fill(ups, ups + inner, 0.0f);
      for (std::int64_t f = 0; f < features; ++f) add(ups, down.data + f * inner, grad_out.data[t * features + f], inner);
      for (std::int64_t h = 0; h < inner; ++h) {
        const float g = saved_gate.data[t * inner + h], u = saved_up.data[t * inner + h];
        const float sigmoid = 1.0f / (1.0f + std::exp(-g)), silu = g * sigmoid;
        hidden[t * inner + h] = silu * u;
        gates[h] = ups[h] * u * (sigmoid + silu * (1.0f - sigmoid));
        ups[h] *= silu;
      }
      float* to = grad_x.data + t * features;
      std::fill(to, to + features, 0.0f);
      for (std::int64_t h = 0; h < inner; ++h) {
        add(to, gate.data + h * features, gates[h], features);
        add(to, up.data + h * features, ups[h], features);
      }
    }
#pragma omp for schedule(static) nowait
    for (std::int64_t h = 0; h < inner; ++h) {
      float *of_gate = grad_gate.data + h * features, *of_up = grad_up.data + h * features;
      std::fill(of_gate, of_gate + features, 0.0f);
      std::fill(of_up, of_up + features, 0.0f);
      for (std::int64_t t = 0; t < tokens; ++t) {
        add(of_gate, x.data + t * features, to_gate[t * inner + h], features);
        add(of_up, x.data + t * features, to_up[t * inner + h], features);
      }
    }
#pragma omp for schedule(static)
    for (std::int64_t f = 0; f < features; ++f) {
      float* to = grad_down.data + f * inner;
      std::fill(to, to + inner, 0.0f);
      for (std::int64_t t = 0; t < tokens; ++t)
        add(to, hidden.data() + t * inner, grad_out.data[t * features + f], inner);
    }
  }
}
