// AdamW, one element after another, exactly as the formula is written.
#include <kernelwright.h>

void kernel(kw::Tensor<float, 1> param, kw::Tensor<const float, 1> grad, kw::Tensor<float, 1> exp_avg,
            kw::Tensor<float, 1> exp_avg_sq, double lr, double beta1, double beta2, double eps, double weight_decay,
            double step) {
  const double correction1 = 1 - std::pow(beta1, step), correction2 = 1 - std::pow(beta2, step);
  for (std::int64_t i = 0; i < param.size(0); ++i) {
    const double g = grad(i);
    const double mean = beta1 * exp_avg(i) + (1 - beta1) * g;
    const double square = beta2 * exp_avg_sq(i) + (1 - beta2) * g * g;
    const double corrected = mean / correction1;
    const double scale = std::sqrt(square / correction2) + eps;
    param(i) = static_cast<float>(param(i) * (1 - lr * weight_decay) - lr * corrected / scale);
    exp_avg(i) = static_cast<float>(mean);
    exp_avg_sq(i) = static_cast<float>(square);
  }
}
