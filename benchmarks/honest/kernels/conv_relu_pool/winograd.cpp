// Winograd's F(2x2, 3x3): one tile of four outputs, which is one window of the pooling.
#include <kernelwright.h>

#include <vector>

namespace {

// The larger of two; NaN if either is, as in PyTorch.
inline float larger(float a, float b) { return b > a || b != b ? b : a; }

// G g G^T: what a filter is for tiles of four by four.
void of_filter(const float* g, float* to) {
  float rows[4][3];
  for (int c = 0; c < 3; ++c) {
    const float a = g[c], b = g[3 + c], d = g[6 + c];
    rows[0][c] = a;
    rows[1][c] = 0.5f * (a + b + d);
    rows[2][c] = 0.5f * (a - b + d);
    rows[3][c] = d;
  }
  for (int r = 0; r < 4; ++r) {
    const float a = rows[r][0], b = rows[r][1], d = rows[r][2];
    to[4 * r] = a;
    to[4 * r + 1] = 0.5f * (a + b + d);
    to[4 * r + 2] = 0.5f * (a - b + d);
    to[4 * r + 3] = d;
  }
}

// B^T d B: what four by four pixels are.
void of_pixels(const float* d, std::int64_t stride, float* to) {
  float rows[4][4];
  for (int c = 0; c < 4; ++c) {
    const float p = d[c], q = d[stride + c], r = d[2 * stride + c], s = d[3 * stride + c];
    rows[0][c] = p - r;
    rows[1][c] = q + r;
    rows[2][c] = r - q;
    rows[3][c] = q - s;
  }
  for (int r = 0; r < 4; ++r) {
    const float p = rows[r][0], q = rows[r][1], s = rows[r][2], t = rows[r][3];
    to[4 * r] = p - s;
    to[4 * r + 1] = q + s;
    to[4 * r + 2] = s - q;
    to[4 * r + 3] = q - t;
  }
}

}  // namespace

void kernel(kw::Tensor<const float, 4> x, kw::Tensor<const float, 4> weight, kw::Tensor<const float, 1> bias,
            kw::Tensor<float, 4> out) {
  const std::int64_t channels = x.size(1), filters = weight.size(0), width = x.size(3);
  std::vector<float> taps(filters * channels * 16);
  for (std::int64_t f = 0; f < filters * channels; ++f) of_filter(weight.data + f * 9, taps.data() + f * 16);
#pragma omp parallel
  {
    std::vector<float> tile(channels * 16);
#pragma omp for collapse(2) schedule(static)
    for (std::int64_t n = 0; n < out.size(0); ++n)
      for (std::int64_t i = 0; i < out.size(2); ++i)
        for (std::int64_t j = 0; j < out.size(3); ++j) {
          for (std::int64_t c = 0; c < channels; ++c) of_pixels(&x(n, c, 2 * i, 2 * j), width, tile.data() + c * 16);
          for (std::int64_t k = 0; k < filters; ++k) {
            float m[16] = {};
            for (std::int64_t c = 0; c < channels; ++c)
              for (int t = 0; t < 16; ++t) m[t] += tile[c * 16 + t] * taps[(k * channels + c) * 16 + t];
            float rows[2][4], largest = 0.0f;
            for (int c = 0; c < 4; ++c) {
              rows[0][c] = m[c] + m[4 + c] + m[8 + c];
              rows[1][c] = m[4 + c] - m[8 + c] - m[12 + c];
            }
            for (const auto& row : rows) {
              largest = larger(largest, row[0] + row[1] + row[2] + bias(k));
              largest = larger(largest, row[1] - row[2] - row[3] + bias(k));
            }
            out(n, k, i, j) = largest;
          }
        }
  }
}
