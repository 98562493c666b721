"""C++ that convolutions share: padding of images, and tables of where the elements of windows lie."""

from __future__ import annotations

PAD = """
// Copies planes into larger ones of zeros: element (y, x) goes to (y * step + down, x * step + right) if that exists.
inline void padded(const float* from, int64_t planes, int64_t height, int64_t width, float* to, int64_t tall,
                   int64_t broad, int64_t step_y, int64_t step_x, int64_t down, int64_t right) {
#pragma omp parallel for schedule(static) if (planes * tall * broad >= 65536)
  for (int64_t p = 0; p < planes; ++p) {
    float* const plane = to + p * tall * broad;
    std::fill(plane, plane + tall * broad, 0.0f);
    for (int64_t y = 0; y < height; ++y) {
      const int64_t row = y * step_y + down;
      if (row < 0 || row >= tall) continue;
      const float* const line = from + (p * height + y) * width;
      if (step_x == 1 && right >= 0 && width + right <= broad) {
        std::copy(line, line + width, plane + row * broad + right);
        continue;
      }
      for (int64_t x = 0; x < width; ++x)
        if (const int64_t at = x * step_x + right; at >= 0 && at < broad) plane[row * broad + at] = line[x];
    }
  }
}
inline std::vector<int64_t> offsets(int64_t a, int64_t da, int64_t b, int64_t db, int64_t c, int64_t dc) {
  std::vector<int64_t> at;
  at.reserve(a * b * c);
  for (int64_t i = 0; i < a; ++i)
    for (int64_t j = 0; j < b; ++j)
      for (int64_t k = 0; k < c; ++k) at.push_back(i * da + j * db + k * dc);
  return at;
}
"""
