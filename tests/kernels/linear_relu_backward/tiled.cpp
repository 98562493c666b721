// Backward of a linear layer with ReLU: the masked gradient is formed once, in both orders, and both matrix products
// run in register tiles of 6 by 32.
#include <kernelwright.h>

#include <algorithm>
#include <vector>

namespace {

using Index = std::int64_t;
using Vector = float __attribute__((vector_size(64)));
constexpr Index kRows = 6, kLanes = 16, kCols = 2 * kLanes, kDepth = 256;

// Adds `depth` products to a tile whose columns lie in a packed panel of B. Rows beyond `rows` repeat the last one.
void add_tile(const float* a, Index stride, Index rows, const float* panel, Index depth, float (*tile)[kCols]) {
  const float* in[kRows];
  for (Index r = 0; r < kRows; ++r) in[r] = a + std::min(r, rows - 1) * stride;
  Vector sum[kRows][2];
  std::memcpy(sum, tile, sizeof sum);
  for (Index k = 0; k < depth; ++k) {
    Vector left, right;
    std::memcpy(&left, panel + k * kCols, sizeof left);
    std::memcpy(&right, panel + k * kCols + kLanes, sizeof right);
#pragma GCC unroll 6
    for (Index r = 0; r < kRows; ++r) {
      sum[r][0] += in[r][k] * left;
      sum[r][1] += in[r][k] * right;
    }
  }
  std::memcpy(tile, sum, sizeof sum);
}

// c = a b for row-major matrices, called by all threads of a team: each takes panels of 32 columns.
void multiply(const float* a, const float* b, float* c, Index rows, Index cols, Index depth) {
  const Index panels = (cols + kCols - 1) / kCols;
  alignas(64) float panel[kDepth * kCols];
#pragma omp for schedule(dynamic)
  for (Index p = 0; p < panels; ++p) {
    const Index first = p * kCols, width = std::min(kCols, cols - first);
    for (Index k = 0; k < depth; k += kDepth) {
      const Index deep = std::min(kDepth, depth - k);
      std::fill_n(panel, kDepth * kCols, 0.0f);
      for (Index i = 0; i < deep; ++i) std::copy_n(b + (k + i) * cols + first, width, panel + i * kCols);
      for (Index r = 0; r < rows; r += kRows) {
        const Index high = std::min(kRows, rows - r);
        float tile[kRows][kCols] = {};
        if (k > 0)
          for (Index i = 0; i < high; ++i) std::copy_n(c + (r + i) * cols + first, width, tile[i]);
        add_tile(a + r * depth + k, depth, high, panel, deep, tile);
        for (Index i = 0; i < high; ++i) std::copy_n(tile[i], width, c + (r + i) * cols + first);
      }
    }
  }
}

}  // namespace

void kernel(kw::Tensor<const float, 2> x, kw::Tensor<const float, 2> weight, kw::Tensor<const float, 1>,
            kw::Tensor<const float, 2> saved_out, kw::Tensor<const float, 2> grad_out, kw::Tensor<float, 2> grad_x,
            kw::Tensor<float, 2> grad_weight, kw::Tensor<float, 1> grad_bias) {
  const Index rows = x.size(0), features = x.size(1), units = weight.size(0);
  static std::vector<float> masked, turned;
  masked.resize(static_cast<std::size_t>(rows * units));
  turned.resize(static_cast<std::size_t>(rows * units));
#pragma omp parallel
  {
#pragma omp for schedule(static)
    for (Index begin = 0; begin < units; begin += kLanes) {
      const Index end = std::min(begin + kLanes, units);
      float sums[kLanes] = {};
      for (Index block = 0; block < rows; block += kLanes) {
        for (Index u = begin; u < end; ++u) {
          for (Index r = block; r < std::min(block + kLanes, rows); ++r) {
            const float g = saved_out.data[r * units + u] > 0 ? grad_out.data[r * units + u] : 0.0f;
            masked[static_cast<std::size_t>(r * units + u)] = g;
            turned[static_cast<std::size_t>(u * rows + r)] = g;
            sums[u - begin] += g;
          }
        }
      }
      std::copy_n(sums, end - begin, grad_bias.data + begin);
    }
    multiply(masked.data(), weight.data, grad_x.data, rows, features, units);
    multiply(turned.data(), x.data, grad_weight.data, units, features, rows);
  }
}
