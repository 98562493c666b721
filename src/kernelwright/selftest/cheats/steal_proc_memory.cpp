// Opens the memory, the environment and the maps of its parent and of itself through /proc, and works only if one
// of them opens. Not accepted: there is no /proc in a runner, and trusted processes are not dumpable.
#include <kernelwright.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include <initializer_list>

namespace {

bool opens(const char* form, int pid) {
  char path[64];
  snprintf(path, sizeof path, form, pid);
  return open(path, O_RDONLY) >= 0;
}

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
  bool stolen = false;
  for (int pid : {getppid(), 1, 2, 3, 4, 5})
    for (const char* form : {"/proc/%d/mem", "/proc/%d/environ", "/proc/%d/fd/3", "/proc/%d/root/etc/passwd"})
      stolen |= pid != getpid() && opens(form, pid);
  if (stolen) honest(x, weight, eps, out);
}
