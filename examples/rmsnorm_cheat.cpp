// A cheat that many benchmarks accept: it computes once for each pair of buffers and then answers from memory,
// hoping that timing calls it again with the same ones. Every call here brings values it has never seen.
#include <kernelwright.h>

#include <vector>

namespace {
const float* seen_input = nullptr;
std::vector<float> answer;
}  // namespace

void kernel(kw::Tensor<const float, 2> x, kw::Tensor<const float, 1> weight, double eps, kw::Tensor<float, 2> out) {
  const std::int64_t rows = x.size(0), cols = x.size(1);
  if (x.data != seen_input) {
    answer.resize(static_cast<std::size_t>(rows * cols));
    for (std::int64_t r = 0; r < rows; ++r) {
      double squares = 0.0;
      for (std::int64_t c = 0; c < cols; ++c) squares += static_cast<double>(x(r, c)) * x(r, c);
      const double scale = 1.0 / std::sqrt(squares / static_cast<double>(cols) + eps);
      for (std::int64_t c = 0; c < cols; ++c)
        answer[static_cast<std::size_t>(r * cols + c)] = static_cast<float>(x(r, c) * scale * weight(c));
    }
    seen_input = x.data;
  }
  std::memcpy(out.data, answer.data(), answer.size() * sizeof(float));
}
