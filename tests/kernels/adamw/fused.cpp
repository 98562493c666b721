// AdamW in one pass of float32 vector lanes; what depends on scalars alone is computed once, in double.
#include <kernelwright.h>

void kernel(kw::Tensor<float, 1> param, kw::Tensor<const float, 1> grad, kw::Tensor<float, 1> exp_avg,
            kw::Tensor<float, 1> exp_avg_sq, double lr, double beta1, double beta2, double eps, double weight_decay,
            double step) {
  const float keep1 = static_cast<float>(beta1), take1 = static_cast<float>(1 - beta1);
  const float keep2 = static_cast<float>(beta2), take2 = static_cast<float>(1 - beta2);
  const float decay = static_cast<float>(1 - lr * weight_decay), small = static_cast<float>(eps);
  const float rate = static_cast<float>(lr / (1 - std::pow(beta1, step)));
  const float correction = static_cast<float>(1 / (1 - std::pow(beta2, step)));
  float* __restrict p = param.data;
  const float* __restrict g = grad.data;
  float* __restrict m = exp_avg.data;
  float* __restrict v = exp_avg_sq.data;
  const std::int64_t count = param.size(0);
#pragma omp parallel for simd schedule(static)
  for (std::int64_t i = 0; i < count; ++i) {
    const float mean = keep1 * m[i] + take1 * g[i];
    const float square = keep2 * v[i] + take2 * g[i] * g[i];
    p[i] = p[i] * decay - rate * mean / (std::sqrt(square * correction) + small);
    m[i] = mean;
    v[i] = square;
  }
}
