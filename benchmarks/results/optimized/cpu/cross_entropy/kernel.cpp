// cross_entropy: vectors of 16 floats, 4 at a time, rows handed out 16 at a time, 3 passes over a row while it is in cache, prefetch 512 floats ahead.
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

// exp(x) = 2^n exp(r) with |r| <= ln(2) / 2; n is applied in two halves, so that subnormal results are right.
inline V exponential(V x) {
  x = x > 89.0f ? wide(89.0f) : x;
  x = x < -104.0f ? wide(-104.0f) : x;
  const V n = (x * 1.44269504f + 12582912.0f) - 12582912.0f;
  const V r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
  V p = r * 1.9875691500e-4f + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * (r * r) + r + 1.0f;
#if defined(__AVX512F__) && 16 == 16
  return (V)_mm512_scalef_ps((__m512)p, (__m512)n);
#else
  const I whole = __builtin_convertvector(pick(n == n, n, V{}), I);
  const I half = whole >> 1;
  return p * (V)((half + 127) << 23) * (V)((whole - half + 127) << 23);
#endif
}
inline float exponential(float x) { return std::exp(x); }

// log(x) = n ln(2) + log(m) with m in [sqrt(1/2), sqrt(2)).
inline V logarithm(V x) {
  const I tiny = x < 1.17549435e-38f;
  const V scaled = pick(tiny, x * 8388608.0f, x);
  const I bits = (I)scaled;
  const I n = ((bits - 0x3f3504f3) >> 23);
  const V m = (V)(bits - (n << 23)) - 1.0f;
  const V e = __builtin_convertvector(n, V) - pick(tiny, wide(23.0f), V{});
  V p = m * 7.0376836292e-2f + -1.1514610310e-1f;
  p = p * m + 1.1676998740e-1f;
  p = p * m + -1.2420140846e-1f;
  p = p * m + 1.4249322787e-1f;
  p = p * m + -1.6668057665e-1f;
  p = p * m + 2.0000714765e-1f;
  p = p * m + -2.4999993993e-1f;
  p = p * m + 3.3333331174e-1f;
  const V s = m * m;
  V y = m * s * p + e * -2.12194440e-4f - 0.5f * s;
  y = m + y + e * 0.693359375f;
  y = pick(x == INF, x, y);
  y = pick(x == 0.0f, wide(-INF), y);
  return pick((x < 0.0f) | (x != x), wide(std::numeric_limits<float>::quiet_NaN()), y);
}
inline float logarithm(float x) { return std::log(x); }

}  // namespace

void kernel(kw::Tensor<const float, 2> logits, kw::Tensor<const std::int64_t, 1> target, kw::Tensor<float, 0> out) {
  {
    const int64_t rows = logits.size(0);
    const int64_t cols = logits.size(1);
    const int64_t v8 = static_cast<int64_t>(-100.0);
    const int64_t v10 = static_cast<int64_t>(0.0);
    const float v14 = static_cast<float>(0.0);
    int64_t total16;
    float total18;
    {  // stage 0
      struct Row { int64_t r; bool mine; int64_t v1; float v2; float v5; float v6; bool v9; int64_t v11; float v12; float v13; float v15; };
      struct Totals { double v16 = 0.0f; double v18 = 0.0f; };
      struct Part0 {
        float v2;
        void join(const Part0& other) {
          v2 = most(v2, other.v2);
        }
      };
      const auto pass0 = [&](const Row& row0, int64_t low, int64_t high) {
        auto* const p0_0 = logits.data + row0.r * cols;
        const auto step = [&](auto lanes_, int64_t c, V& a2) __attribute__((always_inline)) {
          __builtin_prefetch(p0_0 + c + 512);
          const V v0_0 = load(p0_0 + c, lanes_);
          a2 = most(a2, only(v0_0, -INF, lanes_));
        };
        V a2_0 = wide(-INF), a2_1 = wide(-INF), a2_2 = wide(-INF), a2_3 = wide(-INF);
        int64_t c = low;
        for (; c + 4 * W <= high; c += 4 * W) {
          step(All{}, c + 0 * W, a2_0);
          step(All{}, c + 1 * W, a2_1);
          step(All{}, c + 2 * W, a2_2);
          step(All{}, c + 3 * W, a2_3);
        }
        for (; c + W <= high; c += W) step(All{}, c, a2_0);
        if (c < high) step(Some{static_cast<int>(high - c)}, c, a2_0);
        a2_0 = most(a2_0, a2_2);
        a2_1 = most(a2_1, a2_3);
        a2_0 = most(a2_0, a2_1);
        return Part0{across<W / 2>(a2_0, [](V a, V b) { return most(a, b); })};
      };
      struct Part1 {
        float v5;
        void join(const Part1& other) {
          v5 = plus(v5, other.v5);
        }
      };
      const auto pass1 = [&](const Row& row0, int64_t low, int64_t high) {
        auto* const p0_0 = logits.data + row0.r * cols;
        const V b2_0 = wide(row0.v2);
        const auto step = [&](auto lanes_, int64_t c, V& a5) __attribute__((always_inline)) {
          const V v0_0 = load(p0_0 + c, lanes_);
          const V v3_0 = v0_0 - b2_0;
          const V v4_0 = exponential(v3_0);
          a5 = plus(a5, only(v4_0, 0.0f, lanes_));
        };
        V a5_0 = wide(0.0f), a5_1 = wide(0.0f), a5_2 = wide(0.0f), a5_3 = wide(0.0f);
        int64_t c = low;
        for (; c + 4 * W <= high; c += 4 * W) {
          step(All{}, c + 0 * W, a5_0);
          step(All{}, c + 1 * W, a5_1);
          step(All{}, c + 2 * W, a5_2);
          step(All{}, c + 3 * W, a5_3);
        }
        for (; c + W <= high; c += W) step(All{}, c, a5_0);
        if (c < high) step(Some{static_cast<int>(high - c)}, c, a5_0);
        a5_0 = plus(a5_0, a5_2);
        a5_1 = plus(a5_1, a5_3);
        a5_0 = plus(a5_0, a5_1);
        return Part1{across<W / 2>(a5_0, [](V a, V b) { return plus(a, b); })};
      };
      auto settle0 = [&](Row& row, Totals& totals) {
        row.v1 = target.data[row.r];
        row.v9 = row.v1 != v8;
        row.v11 = pick(row.v9, row.v1, v10);
        if (row.mine) {
          totals.v16 = totals.v16 + row.v9;
        }
      };
      auto settle1 = [&](Row& row, const Part0& part, Totals& totals) {
        row.v2 = part.v2;
      };
      auto settle2 = [&](Row& row, const Part1& part, Totals& totals) {
        row.v5 = part.v5;
        row.v6 = logarithm(row.v5);
        row.v12 = [&](int64_t c) { const auto e0 = logits.data[row.r * cols + c]; const auto e3 = e0 - row.v2; const auto e7 = e3 - row.v6; return e7; }(row.v11);
        row.v13 = -row.v12;
        row.v15 = pick(row.v9, row.v13, v14);
        if (row.mine) {
          totals.v18 = totals.v18 + row.v15;
        }
      };
      const int most_threads = rows * cols < 16384 ? 1 : omp_get_max_threads();
      const bool split = most_threads > 1 && rows < 4 * most_threads;
      const int64_t pitch = (cols + 31) / 16 * 16;
      std::vector<Totals> found(most_threads);
      std::vector<Part0> parts0(2 * most_threads);
      std::vector<Part1> parts1(2 * most_threads);
      #pragma omp parallel num_threads(most_threads)
      {
        const int me = omp_get_thread_num(), team = omp_get_num_threads();
        const int64_t share = ((cols + team - 1) / team + 63) / 64 * 64;
        const int64_t low = split ? std::min(cols, share * me) : 0;
        const int64_t high = split ? std::min(cols, low + share) : cols;
        Totals totals;
        const auto row_at = [&](int64_t r, [[maybe_unused]] int slot) {
          return Row{r, !split || me == 0};
        };
        if (split) {
          for (int64_t r = 0; r < rows; ++r) {
            Row row = row_at(r, 0);
            settle0(row, totals);
            parts0[(r & 1) * team + me] = pass0(row, low, high);
            #pragma omp barrier
            Part0 part0 = parts0[(r & 1) * team];
            for (int t = 1; t < team; ++t) part0.join(parts0[(r & 1) * team + t]);
            settle1(row, part0, totals);
            parts1[(r & 1) * team + me] = pass1(row, low, high);
            #pragma omp barrier
            Part1 part1 = parts1[(r & 1) * team];
            for (int t = 1; t < team; ++t) part1.join(parts1[(r & 1) * team + t]);
            settle2(row, part1, totals);
          }
        } else {
          const auto prepared = [&](int64_t r, int slot) {
            Row row = row_at(r, slot);
            settle0(row, totals);
            settle1(row, pass0(row, 0, cols), totals);
            settle2(row, pass1(row, 0, cols), totals);
            return row;
          };
          const auto run = [&](int64_t r, int64_t end) {
            for (; r < end; ++r) {
              [[maybe_unused]] const Row row = prepared(r, 0);
            }
          };
          #pragma omp for schedule(dynamic, 1) nowait
          for (int64_t r = 0; r < rows; r += 16) run(r, std::min(rows, r + 16));
        }
        found[me] = totals;
      }
      double sum16 = 0.0f;
      for (const Totals& t : found) sum16 = sum16 + t.v16;
      total16 = static_cast<int64_t>(sum16);
      double sum18 = 0.0f;
      for (const Totals& t : found) sum18 = sum18 + t.v18;
      total18 = static_cast<float>(sum18);
    }
    const int64_t v16 = total16;
    const float v17 = static_cast<float>(v16);
    const float v18 = total18;
    const float v19 = v18 / v17;
    out.data[0] = v19;
  }
}
