// unet_conv2d: convolution as a product over windows, tiles of 8 rows by 3 vectors of 16, blocks of 96×384×256, both operands packed, the steps after it on each finished block.
#include <kernelwright.h>

#include <algorithm>
#include <limits>
#include <vector>

#include <omp.h>
#if defined(__AVX__)
#include <immintrin.h>
#endif

namespace {

using std::int64_t;
constexpr int W = 16;  // floats in a vector
typedef float V __attribute__((vector_size(W * 4)));
typedef std::int32_t I __attribute__((vector_size(W * 4)));
constexpr float INF = std::numeric_limits<float>::infinity();

inline float* aligned(float* at) { return at + (-(reinterpret_cast<std::uintptr_t>(at) / 4) & 15); }

struct All {};  // every lane counts
struct Some {   // the first `count` lanes count
  int count;
};

inline V wide(float x) { return x - V{}; }
inline I wide(int x) { return x - I{}; }
inline I lanes() {
  I at;
  for (int i = 0; i < W; ++i) at[i] = i;
  return at;
}
inline I counted(Some some) { return lanes() < some.count; }

inline V load(const float* from, All) {
  V v;
  std::memcpy(&v, from, sizeof v);
  return v;
}
inline V load(const float* from, Some some) {
#if defined(__AVX512F__) && 16 == 16
  return (V)_mm512_maskz_loadu_ps((__mmask16)((1u << some.count) - 1), from);
#elif defined(__AVX__) && 16 == 8
  return (V)_mm256_maskload_ps(from, (__m256i)counted(some));
#else
  V v{};
  for (int i = 0; i < some.count; ++i) v[i] = from[i];
  return v;
#endif
}
inline void store(float* to, V v, All) { std::memcpy(to, &v, sizeof v); }
inline void store(float* to, V v, Some some) {
#if defined(__AVX512F__) && 16 == 16
  _mm512_mask_storeu_ps(to, (__mmask16)((1u << some.count) - 1), (__m512)v);
#elif defined(__AVX__) && 16 == 8
  _mm256_maskstore_ps(to, (__m256i)counted(some), (__m256)v);
#else
  for (int i = 0; i < some.count; ++i) to[i] = v[i];
#endif
}
// Past the caches; `to` is aligned to a whole vector.
inline void stream(float* to, V v, All) {
#if defined(__AVX512F__) && 16 == 16
  _mm512_stream_ps(to, (__m512)v);
#elif defined(__AVX__) && 16 == 8
  _mm256_stream_ps(to, (__m256)v);
#else
  store(to, v, All{});
#endif
}
inline void stream(float* to, V v, Some some) { store(to, v, some); }
inline void streamed() {
#if defined(__AVX__)
  _mm_sfence();
#endif
}

inline V pick(I c, V a, V b) { return c ? a : b; }
inline V pick(I c, V a, float b) { return c ? a : wide(b); }
inline V pick(I c, float a, V b) { return c ? wide(a) : b; }
inline V pick(I c, float a, float b) { return c ? wide(a) : wide(b); }
inline V pick(bool c, V a, V b) { return c ? a : b; }
template <class T>
inline T pick(bool c, T a, T b) { return c ? a : b; }
inline I no(I c) { return ~c; }
inline bool no(bool c) { return !c; }

// What does not count is replaced by what changes nothing.
inline V only(V v, float, All) { return v; }
inline V only(V v, float nothing, Some some) { return pick(counted(some), v, wide(nothing)); }

// NaN wins, as in torch.
inline V most(V a, V b) { return ((a > b) | (a != a)) ? a : b; }
inline float most(float a, float b) { return a > b || a != a ? a : b; }
inline V least(V a, V b) { return ((a < b) | (a != a)) ? a : b; }
inline float least(float a, float b) { return a < b || a != a ? a : b; }
inline V plus(V a, V b) { return a + b; }
inline float plus(float a, float b) { return a + b; }

template <int Half, class F>
inline float across(V v, F join) {
  I other;
  for (int i = 0; i < W; ++i) other[i] = i ^ Half;
  v = join(v, __builtin_shuffle(v, other));
  if constexpr (Half > 1) return across<Half / 2>(v, join);
  return v[0];
}
inline V absolute(V x) { return (V)((I)x & 0x7fffffff); }
inline float absolute(float x) { return std::fabs(x); }
inline V positive(V x) { return ((x > 0.0f) | (x != x)) ? x : V{}; }
inline float positive(float x) { return x > 0 || x != x ? x : 0.0f; }
inline float signum(float x) { return x != x ? x : float((x > 0) - (x < 0)); }
inline V signum(V x) { return x != x ? x : pick(x > 0.0f, wide(1.0f), pick(x < 0.0f, wide(-1.0f), V{})); }

inline float root(float x) { return std::sqrt(x); }
inline V root(V x) {
#if defined(__AVX512F__) && 16 == 16
  return (V)_mm512_sqrt_ps((__m512)x);
#elif defined(__AVX__) && 16 == 8
  return (V)_mm256_sqrt_ps((__m256)x);
#else
  V y;
  for (int i = 0; i < W; ++i) y[i] = std::sqrt(x[i]);
  return y;
#endif
}

struct Strided {  // element (i, k) of an operand; for the right one i counts columns
  const float* data;
  int64_t outer, inner;
  float at(int64_t i, int64_t k) const { return data[i * outer + k * inner]; }
};
struct Indexed {
  const float* data;
  const int64_t *outer, *inner;
  float at(int64_t i, int64_t k) const { return data[outer[i] + inner[k]]; }
};
struct Nothing {
  void operator()(int64_t, int64_t, int64_t, int64_t, int64_t) const {}
};

// Panels of `T` neighbours, k after k; what is missing in the last panel is zero.
template <int T, class O>
void pack(const O& from, int64_t i0, int64_t count, int64_t k0, int64_t depth, float* to) {
  for (int64_t p = 0; p < count; p += T, to += T * depth) {
    const int64_t here = std::min<int64_t>(T, count - p);
    if (here < T) std::fill(to, to + T * depth, 0.0f);
    if constexpr (requires { from.outer + 1.5; }) {
      if (from.outer != 1) {
        // A few k at a time, so that the lines being written stay in the first cache.
        for (int64_t k = 0; k < depth; k += 16)
          for (int64_t i = 0; i < here; ++i)
            for (int64_t l = k; l < std::min(depth, k + 16); ++l) to[l * T + i] = from.at(i0 + p + i, k0 + l);
        continue;
      }
    }
    if (here == T) {
      for (int64_t k = 0; k < depth; ++k)
        for (int64_t i = 0; i < T; ++i) to[k * T + i] = from.at(i0 + p + i, k0 + k);
    } else {
      for (int64_t k = 0; k < depth; ++k)
        for (int64_t i = 0; i < here; ++i) to[k * T + i] = from.at(i0 + p + i, k0 + k);
    }
  }
}

// A tile of R rows and N vectors in registers.
template <int R, int N>
inline void tile(int64_t depth, const float* a, int64_t row, int64_t along, const float* b, float* c, int64_t pitch,
                 int64_t rows, int64_t cols, bool first) {
  V sum[R][N] = {};
  for (int64_t k = 0; k < depth; ++k) {
    V right[N];
#pragma GCC unroll 8
    for (int n = 0; n < N; ++n) right[n] = load(b + (k * N + n) * W, All{});
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) {
      const V left = wide(a[r * row + k * along]);
#pragma GCC unroll 8
      for (int n = 0; n < N; ++n) sum[r][n] += left * right[n];
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) {
    if (r >= rows) break;
#pragma GCC unroll 8
    for (int n = 0; n < N; ++n) {
      float* const to = c + r * pitch + n * W;
      const int64_t left = cols - n * W;
      if (left >= W) {
        store(to, first ? sum[r][n] : load(to, All{}) + sum[r][n], All{});
      } else if (left > 0) {
        const Some some{static_cast<int>(left)};
        store(to, first ? sum[r][n] : load(to, some) + sum[r][n], some);
      }
    }
  }
}

// One block of the product, all of its depth; `room` holds the packed panels of both operands.
template <int R, int N, bool Direct, class L, class O>
void block(const L& left, const O& right, float* c, int64_t pitch, int64_t i0, int64_t rows, int64_t j0, int64_t cols,
           int64_t depth, int64_t chunk, float* room) {
  constexpr int T = N * W;
  float* const b = room;
  float* const a = room + (cols + T - 1) / T * T * chunk;
  for (int64_t k0 = 0; k0 < depth; k0 += chunk) {
    const int64_t here = std::min(chunk, depth - k0);
    pack<T>(right, j0, cols, k0, here, b);
    const int64_t whole = Direct ? rows / R * R : 0;
    pack<R>(left, i0 + whole, rows - whole, k0, here, a);
    for (int64_t j = 0; j < cols; j += T) {
      for (int64_t i = 0; i < rows; i += R) {
        float* const to = c + (i0 + i) * pitch + j0 + j;
        if constexpr (Direct) {
          if (i < whole) {
            const float* const from = left.data + (i0 + i) * left.outer + k0 * left.inner;
            tile<R, N>(here, from, left.outer, left.inner, b + j * here, to, pitch, R, cols - j, k0 == 0);
            continue;
          }
        }
        tile<R, N>(here, a + (i - whole) * here, 1, R, b + j * here, to, pitch, rows - i, cols - j, k0 == 0);
      }
    }
  }
}

// `count` products side by side, each with its operands and result. `last` follows every finished block and is told
// which product it is of, and its first and end row and column.
template <int R, int N, bool Direct, class F, class E>
void products(int64_t count, int64_t m, int64_t n, int64_t depth, int64_t tall, int64_t broad, int64_t chunk,
              int64_t grain, const F& operands, const E& last) {
  constexpr int T = N * W;
  const int team = count * m * n * depth < grain ? 1 : omp_get_max_threads();
  chunk = std::min(chunk, depth);
  tall = std::min((m + R - 1) / R * R, tall);
  broad = std::min((n + T - 1) / T * T, broad);
  const auto blocks = [&] { return count * ((m + tall - 1) / tall) * ((n + broad - 1) / broad); };
  while (team > 1 && blocks() < 3 * team && (broad > T || tall > 4 * R)) {
    if (broad > T) broad = std::max<int64_t>(T, broad / 2 / T * T);
    else tall = std::max<int64_t>(R, tall / 2 / R * R);
  }
  const int64_t across = (n + broad - 1) / broad, down = (m + tall - 1) / tall;
  const size_t each = static_cast<size_t>(((tall + R) + (broad + T)) * chunk + 64) / 16 * 16;
  static std::vector<float> memory;
  if (memory.size() < each * team + 16) memory.resize(each * team + 16);
  float* const room = aligned(memory.data());
#pragma omp parallel for schedule(dynamic, 1) num_threads(team)
  for (int64_t t = 0; t < count * across * down; ++t) {
    const int64_t which = t / (across * down), j0 = t / down % across * broad, i0 = t % down * tall;
    const int64_t rows = std::min(tall, m - i0), cols = std::min(broad, n - j0);
    const auto [left, right, to] = operands(which);
    block<R, N, Direct>(left, right, to, n, i0, rows, j0, cols, depth, chunk, room + omp_get_thread_num() * each);
    last(which, i0, i0 + rows, j0, j0 + cols);
  }
}
template <class L, class O>
struct Operands {
  L left;
  O right;
  float* to;
};
template <class L, class O>
Operands(L, O, float*) -> Operands<L, O>;

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

}  // namespace

void kernel(kw::Tensor<const float, 4> x, kw::Tensor<const float, 4> weight, kw::Tensor<const float, 1> bias, kw::Tensor<float, 4> out) {
  {
    const int64_t batch = x.size(0);
    const int64_t channels = x.size(1);
    const int64_t height = x.size(2);
    const int64_t width = x.size(3);
    const int64_t filters = weight.size(0);
    const int64_t tall = x.size(2);
    const int64_t broad = x.size(3);
    const int64_t high_ = height + 2, wide_ = width + 2;
    static std::vector<float> image_memory;
    const size_t room = static_cast<size_t>(batch * channels * high_ * wide_);
    if (image_memory.size() < room) image_memory.resize(room);
    const float* const image = image_memory.data();
    padded(x.data, batch * channels, height, width, image_memory.data(), high_, wide_, 1, 1, 1, 1);
    const auto pixel = offsets(1, 0, tall, 1 * wide_, broad, 1);
    const auto tap = offsets(channels, high_ * wide_, 3, 1 * wide_, 3, 1);
    const int64_t cols = x.size(2) * x.size(3);
          struct Row { int64_t r; bool mine; float v0; };
          struct Totals { };
    auto settle0 = [&](Row& row, Totals& totals) {
      row.v0 = bias.data[row.r % (weight.size(0))];
    };
    const auto finish1 = [&](const Row& row0, int64_t low, int64_t high) {
      auto* const p0_0 = out.data + row0.r * cols;
      const V b0_0 = wide(row0.v0);
      const auto step = [&](auto lanes_, int64_t c) __attribute__((always_inline)) {
        const V v1_0 = load(p0_0 + c, lanes_);
        const V v2_0 = v1_0 + b0_0;
        store(p0_0 + c, v2_0, lanes_);
      };
      int64_t c = low;
      for (; c + 2 * W <= high; c += 2 * W) {
        step(All{}, c + 0 * W);
        step(All{}, c + 1 * W);
      }
      for (; c + W <= high; c += W) step(All{}, c);
      if (c < high) step(Some{static_cast<int>(high - c)}, c);
    };
    const auto last = [&](int64_t r, int64_t low, int64_t high) {
      Row row{r, true};
      Totals totals;
      settle0(row, totals);
      finish1(row, low, high);
    };
    const auto after = [&](int64_t b, int64_t i0, int64_t i1, int64_t j0, int64_t j1) {
      for (int64_t i = i0; i < i1; ++i) last(b * filters + i, j0, j1);
    };
    products<8, 3, false>(batch, filters, tall * broad, channels * 9, 96, 384, 256, 65536, [&](int64_t b) { return Operands{Strided{weight.data, channels * 9, 1}, Indexed{image + b * channels * high_ * wide_, pixel.data(), tap.data()}, out.data + b * filters * tall * broad}; }, after);
  }
}
