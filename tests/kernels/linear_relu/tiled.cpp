// Linear layer with ReLU in register tiles. The weight is packed into panels of 32 units, feature by feature, so
// that the inner loop reads two vectors of it and broadcasts one value of each of six rows.
#include <kernelwright.h>

#include <algorithm>
#include <vector>

namespace {

using Index = std::int64_t;
using Vector = float __attribute__((vector_size(64)));
constexpr Index kRows = 6, kLanes = 16, kUnits = 2 * kLanes, kFeatures = 256, kChunk = 16 * kRows;

// Adds the products of one block of features to a tile. Rows beyond `rows` repeat the last one and are not stored.
void add_tile(const float* x, Index stride, Index rows, const float* panel, Index features, float* tile) {
  const float* in[kRows];
  for (Index r = 0; r < kRows; ++r) in[r] = x + std::min(r, rows - 1) * stride;
  Vector sum[kRows][2];
  std::memcpy(sum, tile, sizeof sum);
  for (Index f = 0; f < features; ++f) {
    Vector left, right;
    std::memcpy(&left, panel + f * kUnits, sizeof left);
    std::memcpy(&right, panel + f * kUnits + kLanes, sizeof right);
#pragma GCC unroll 6
    for (Index r = 0; r < kRows; ++r) {
      sum[r][0] += in[r][f] * left;
      sum[r][1] += in[r][f] * right;
    }
  }
  std::memcpy(tile, sum, sizeof sum);
}

}  // namespace

void kernel(kw::Tensor<const float, 2> x, kw::Tensor<const float, 2> weight, kw::Tensor<const float, 1> bias,
            kw::Tensor<float, 2> out) {
  const Index rows = x.size(0), features = x.size(1), units = weight.size(0);
  const Index panels = (units + kUnits - 1) / kUnits, chunks = (rows + kChunk - 1) / kChunk;
  static std::vector<Vector> packed;  // vectors, so that no load straddles two cache lines
  packed.resize(static_cast<std::size_t>(panels * features * kUnits / kLanes));
  float* const base = reinterpret_cast<float*>(packed.data());
#pragma omp parallel
  {
#pragma omp for collapse(2) schedule(static)
    for (Index p = 0; p < panels; ++p) {
      for (Index block = 0; block < features; block += kLanes) {
        float* panel = base + p * features * kUnits;
        const Index end = std::min(block + kLanes, features);
        for (Index u = 0; u < kUnits; ++u) {
          const Index unit = p * kUnits + u;
          for (Index f = block; f < end; ++f)
            panel[f * kUnits + u] = unit < units ? weight.data[unit * features + f] : 0.0f;
        }
      }
    }
#pragma omp for collapse(2) schedule(dynamic)
    for (Index p = 0; p < panels; ++p) {
      for (Index chunk = 0; chunk < chunks; ++chunk) {
        const float* panel = base + p * features * kUnits;
        const Index first = chunk * kChunk, last = std::min(rows, first + kChunk);
        const Index unit = p * kUnits, width = std::min(kUnits, units - unit);
        float tiles[kChunk / kRows][kRows][kUnits] = {};
        for (Index f = 0; f < features; f += kFeatures)
          for (Index r = first; r < last; r += kRows)
            add_tile(x.data + r * features + f, features, last - r, panel + f * kUnits,
                     std::min(kFeatures, features - f), tiles[(r - first) / kRows][0]);
        for (Index r = first; r < last; ++r)
          for (Index u = 0; u < width; ++u)
            out.data[r * units + unit + u] =
                std::max(tiles[(r - first) / kRows][(r - first) % kRows][u] + bias.data[unit + u], 0.0f);
      }
    }
  }
}
