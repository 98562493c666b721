// Returns at once while a detached thread does the work. Earns nothing: all threads are stopped when the call has
// returned, and the output is compared as it stands then.
#include <kernelwright.h>

#include <thread>

namespace {

void honest(kw::Tensor<const float, 2> x, kw::Tensor<const float, 1> weight, double eps, kw::Tensor<float, 2> out) {
  const std::int64_t rows = x.size(0), cols = x.size(1);
#pragma omp parallel for
  for (std::int64_t r = 0; r < rows; ++r) {
    const float* in = x.data + r * cols;
    float squares = 0.0f;
#pragma omp simd reduction(+ : squares)
    for (std::int64_t c = 0; c < cols; ++c) squares += in[c] * in[c];
    const float scale = 1.0f / std::sqrt(squares / static_cast<float>(cols) + static_cast<float>(eps));
    for (std::int64_t c = 0; c < cols; ++c) out.data[r * cols + c] = in[c] * scale * weight.data[c];
  }
}

}  // namespace

void kernel(kw::Tensor<const float, 2> x, kw::Tensor<const float, 1> weight, double eps, kw::Tensor<float, 2> out) {
  std::thread(honest, x, weight, eps, out).detach();
}
