// Tiles in registers. Operands come as functors, so that one loop serves packed panels and windows of an image.
template <int R>
struct Panel {  // R neighbours for each k, packed
  const float* data;
  float at(int64_t k, int r) const { return data[k * R + r]; }
};
template <int Step>
struct Taps {  // R places of an image, Step apart; where k reads is in a table
  const float* data;
  const int64_t* away;
  float at(int64_t k, int r) const { return data[away[k] + r * Step]; }
};
struct Vectors {  // `step` floats from one k to the next
  const float* data;
  int64_t step;
  const float* at(int64_t k, int n) const { return data + k * step + n * W; }
};
struct TapVectors {
  const float* data;
  const int64_t* away;
  const float* at(int64_t k, int n) const { return data + away[k] + n * W; }
};

// c[r][j] (+)= sum over k of a(k, r) b(k, j): R rows and N vectors. With Edges only `rows` and `cols` of them count.
template <int R, int N, bool Edges, class A, class B>
inline void tile(int64_t depth, const A a, const B b, float* c, int64_t pitch, bool first, int64_t rows = R,
                 int64_t cols = N * W) {
  V sum[R][N] = {};
#pragma GCC unroll 32
  for (int r = 0; r < R; ++r) __builtin_prefetch(c + r * pitch, 1);
  for (int64_t k = 0; k < depth; ++k) {
    V right[N];
#pragma GCC unroll 8
    for (int n = 0; n < N; ++n) right[n] = load(b.at(k, n), All{});
#pragma GCC unroll 32
    for (int r = 0; r < R; ++r) {
      const V left = wide(a.at(k, r));
#pragma GCC unroll 8
      for (int n = 0; n < N; ++n) sum[r][n] += left * right[n];
    }
  }
  if (Edges && (rows < R || cols < N * W)) {
    V held[R][N];
    std::memcpy(held, sum, sizeof held);
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t j = 0; j < cols; j += W) {
        const Some some = upto(cols - j);
        const V own = held[r][j / W];
        store(c + r * pitch + j, first ? own : load(c + r * pitch + j, some) + own, some);
      }
    return;
  }
#pragma GCC unroll 32
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 8
    for (int n = 0; n < N; ++n) {
      float* const to = c + r * pitch + n * W;
      store(to, first ? sum[r][n] : load(to, All{}) + sum[r][n], All{});
    }
  }
}

// Calls f with `rows`, or the next number that is `By` times another, up to Most, as a constant.
template <int Most, int By, class F>
inline void with_rows(int64_t rows, const F& f) {
  if constexpr (Most > By) {
    if (rows <= Most - By) return with_rows<Most - By, By>(rows, f);
  }
  f(std::integral_constant<int, Most>{});
}
template <int R, int N, class B>
inline void panel_tile(int64_t rows, int64_t depth, const float* a, const B b, float* c, int64_t pitch, int64_t cols,
                       bool first) {
  with_rows<R, 2>(rows, [&](auto r) {
    if (N > 1 && cols <= W) tile<r, 1, true>(depth, Panel<r>{a}, b, c, pitch, first, rows, std::min<int64_t>(W, cols));
    else tile<r, N, true>(depth, Panel<r>{a}, b, c, pitch, first, rows, std::min<int64_t>(N * W, cols));
  });
}
// Where part `number` of `parts` nearly equal ones begins.
inline int64_t cut(int64_t total, int64_t parts, int64_t number) {
  return total / parts * number + std::min(number, total % parts);
}
// Where panel `number` begins: all are of an even height, but for the last.
inline int64_t panel_start(int64_t rows, int64_t panels, int64_t number) {
  return std::min(rows, 2 * cut((rows + 1) / 2, panels, number));
}
