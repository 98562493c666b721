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

// c[r][j] (+)= sum over k of a(k, r) b(k, j): R rows and N vectors, of which `cols` columns count.
template <int R, int N, class A, class B>
inline void tile(int64_t depth, const A a, const B b, float* c, int64_t pitch, int64_t cols, bool first) {
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
  const bool whole = cols >= N * W;
#pragma GCC unroll 32
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 8
    for (int n = 0; n < N; ++n) {
      float* const to = c + r * pitch + n * W;
      if (whole) {
        store(to, first ? sum[r][n] : load(to, All{}) + sum[r][n], All{});
      } else if (const int64_t left = cols - n * W; left > 0) {
        const Some some = upto(left);
        store(to, first ? sum[r][n] : load(to, some) + sum[r][n], some);
      }
    }
  }
}

// Calls f with `rows`, from 1 to Most, as a constant.
template <int Most, class F>
inline void with_rows(int64_t rows, const F& f) {
  if constexpr (Most > 1) {
    if (rows < Most) return with_rows<Most - 1>(rows, f);
  }
  f(std::integral_constant<int, Most>{});
}
template <int R, int N, class B>
inline void panel_tile(int64_t rows, int64_t depth, const float* a, const B b, float* c, int64_t pitch, int64_t cols,
                       bool first) {
  with_rows<R>(rows, [&](auto r) {
    if (N > 1 && cols <= W) tile<r, 1>(depth, Panel<r>{a}, b, c, pitch, cols, first);
    else tile<r, N>(depth, Panel<r>{a}, b, c, pitch, cols, first);
  });
}
// Where part `number` of `parts` nearly equal ones begins.
inline int64_t cut(int64_t total, int64_t parts, int64_t number) {
  return total / parts * number + std::min(number, total % parts);
}
