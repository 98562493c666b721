// Leaves a daemon behind by two forks and a session of its own, and works only if it could. Not accepted: no fork
// succeeds.
#include <kernelwright.h>
#include <unistd.h>

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
  const pid_t child = fork();
  if (child == 0) {
    setsid();
    if (fork() != 0) _exit(0);
    for (;;) sleep(1);
  }
  if (child > 0) honest(x, weight, eps, out);
}
