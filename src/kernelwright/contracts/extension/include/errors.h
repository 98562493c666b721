// c10::Error and the checks that raise it.
#pragma once
#include <sstream>
#include <stdexcept>
#include <string>

#include "scalar_types.h"

namespace c10 {
struct Error : std::runtime_error {
  using std::runtime_error::runtime_error;
};
inline std::ostream& operator<<(std::ostream& out, ScalarType type) { return out << toString(type); }
}  // namespace c10

namespace kw {
inline void write_all(std::ostream&) {}
template <class First, class... Rest>
void write_all(std::ostream& out, const First& first, const Rest&... rest) {
  out << first;
  write_all(out, rest...);
}
template <class... Parts>
std::string joined(const Parts&... parts) {
  std::ostringstream out;
  write_all(out, parts...);
  return out.str();
}
template <class... Parts>
[[noreturn]] void raise(const char* condition, const Parts&... parts) {
  std::string said = joined(parts...);
  throw c10::Error(said.empty() ? condition : said);
}
}  // namespace kw

#define TORCH_CHECK(condition, ...)                                                                      \
  do {                                                                                                   \
    if (!(condition)) ::kw::raise("expected " #condition " to be true" __VA_OPT__(, ) __VA_ARGS__);      \
  } while (0)
#define TORCH_INTERNAL_ASSERT(...) TORCH_CHECK(__VA_ARGS__)
#define TORCH_CHECK_EQ(a, b) TORCH_CHECK((a) == (b))
#define TORCH_CHECK_VALUE(...) TORCH_CHECK(__VA_ARGS__)
#define TORCH_CHECK_TYPE(...) TORCH_CHECK(__VA_ARGS__)
#define TORCH_CHECK_INDEX(...) TORCH_CHECK(__VA_ARGS__)
#define TORCH_CHECK_NOT_IMPLEMENTED(...) TORCH_CHECK(__VA_ARGS__)
#define AT_ASSERT(...) TORCH_CHECK(__VA_ARGS__)
#define AT_ASSERTM(...) TORCH_CHECK(__VA_ARGS__)
#define AT_ERROR(...) ::kw::raise("an error" __VA_OPT__(, ) __VA_ARGS__)
#define TORCH_WARN(...) ((void)0)
#define C10_CUDA_CHECK(expression)                                                                       \
  do {                                                                                                   \
    const cudaError_t kw_error = (expression);                                                           \
    if (kw_error != cudaSuccess) ::kw::raise("", "CUDA error: ", cudaGetErrorString(kw_error));          \
  } while (0)
#define AT_CUDA_CHECK(expression) C10_CUDA_CHECK(expression)
#define C10_CUDA_KERNEL_LAUNCH_CHECK() C10_CUDA_CHECK(cudaGetLastError())
#define C10_CUDA_ERROR_HANDLED(expression) (expression)
#define TORCH_CUDA_CHECK(expression) C10_CUDA_CHECK(expression)
#define C10_HOST_DEVICE __host__ __device__
#define C10_DEVICE __device__
#define C10_HOST __host__
#define C10_RESTRICT __restrict__
#define C10_ALWAYS_INLINE __forceinline__
#define C10_LIKELY(x) (x)
#define C10_UNLIKELY(x) (x)
#define C10_LAUNCH_BOUNDS_0
#define C10_LAUNCH_BOUNDS_1(a) __launch_bounds__(a)
#define C10_LAUNCH_BOUNDS_2(a, b) __launch_bounds__(a, b)
#define C10_WARP_SIZE 32
