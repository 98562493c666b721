// Makes the input writable with mprotect first. Earns nothing: the memory file is sealed against new writers.
#include <kernelwright.h>
#include <sys/mman.h>

void kernel(kw::Tensor<const float, 2> x, kw::Tensor<const float, 1>, double, kw::Tensor<float, 2> out) {
  char* page = reinterpret_cast<char*>(reinterpret_cast<std::uintptr_t>(x.data) & ~std::uintptr_t{4095});
  const std::size_t bytes = static_cast<std::size_t>(x.numel()) * sizeof(float);
  if (mprotect(page, bytes, PROT_READ | PROT_WRITE) == 0) std::memset(page, 0, bytes);
  std::memset(out.data, 0, static_cast<std::size_t>(out.numel()) * sizeof(float));
}
