// cross_entropy:backward: vectors of 16 floats, 2 at a time, equal shares of rows for each thread, 3 passes over a row while it is in cache, costly values kept between passes, streaming stores, prefetch 512 floats ahead.
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

}  // namespace

void kernel(kw::Tensor<const float, 2> logits, kw::Tensor<const std::int64_t, 1> target, kw::Tensor<const float, 0> grad_out, kw::Tensor<float, 2> grad_logits) {
  {
    const int64_t rows = logits.size(0);
    const int64_t cols = logits.size(1);
    const float v2 = grad_out.data[0];
    const int64_t v7 = static_cast<int64_t>(-100.0);
    const int64_t v12 = static_cast<int64_t>(0.0);
    const float v14 = static_cast<float>(0.0);
    const float v17 = static_cast<float>(-1.0);
    int64_t total9;
    {  // stage 0
      struct Row { int64_t r; bool mine; float* k5; int64_t v1; bool v8; };
      struct Totals { double v9 = 0.0f; };
      auto settle0 = [&](Row& row, Totals& totals) {
        row.v1 = target.data[row.r];
        row.v8 = row.v1 != v7;
        if (row.mine) {
          totals.v9 = totals.v9 + row.v8;
        }
      };
      const int most_threads = rows < 16384 ? 1 : omp_get_max_threads();
      const bool split = most_threads > 1 && rows < 4 * most_threads;
      const int64_t pitch = (cols + 31) / 16 * 16;
      static std::vector<float> memory;
      const size_t room = static_cast<size_t>(pitch) * 1 * (split ? 1 : most_threads) + 16;
      if (memory.size() < room) memory.resize(room);
      float* const scratch = aligned(memory.data());
      std::vector<Totals> found(most_threads);
      #pragma omp parallel num_threads(most_threads)
      {
        const int me = omp_get_thread_num(), team = omp_get_num_threads();
        const int64_t share = ((cols + team - 1) / team + 63) / 64 * 64;
        const int64_t low = split ? std::min(cols, share * me) : 0;
        const int64_t high = split ? std::min(cols, low + share) : cols;
        Totals totals;
        float* const own = scratch + (split ? 0 : me) * 1 * pitch;
        const auto row_at = [&](int64_t r, [[maybe_unused]] int slot) {
          return Row{r, !split || me == 0, own + (0 + 1 * slot + 0) * pitch};
        };
        if (split) {
          for (int64_t r = 0; r < rows; ++r) {
            Row row = row_at(r, 0);
            settle0(row, totals);
          }
        } else {
          const auto prepared = [&](int64_t r, int slot) {
            Row row = row_at(r, slot);
            settle0(row, totals);
            return row;
          };
          const auto run = [&](int64_t r, int64_t end) {
            for (; r < end; ++r) {
              [[maybe_unused]] const Row row = prepared(r, 0);
            }
          };
          run(rows * me / team, rows * (me + 1) / team);
        }
        found[me] = totals;
      }
      double sum9 = 0.0f;
      for (const Totals& t : found) sum9 = sum9 + t.v9;
      total9 = static_cast<int64_t>(sum9);
    }
    const int64_t v9 = total9;
    const float v10 = static_cast<float>(v9);
    const float v11 = v2 / v10;
    {  // stage 1
      struct Row { int64_t r; bool mine; float* k5; int64_t v1; float v3; float v6; bool v8; int64_t v13; float v19; float v22; };
      struct Totals { };
      struct Part0 {
        float v3;
        void join(const Part0& other) {
          v3 = most(v3, other.v3);
        }
      };
      const auto pass0 = [&](const Row& row0, int64_t low, int64_t high) {
        auto* const p0_0 = logits.data + row0.r * cols;
        const auto step = [&](auto lanes_, int64_t c, V& a3) __attribute__((always_inline)) {
          __builtin_prefetch(p0_0 + c + 512);
          const V v0_0 = load(p0_0 + c, lanes_);
          a3 = most(a3, only(v0_0, -INF, lanes_));
        };
        V a3_0 = wide(-INF), a3_1 = wide(-INF);
        int64_t c = low;
        for (; c + 2 * W <= high; c += 2 * W) {
          step(All{}, c + 0 * W, a3_0);
          step(All{}, c + 1 * W, a3_1);
        }
        for (; c + W <= high; c += W) step(All{}, c, a3_0);
        if (c < high) step(Some{static_cast<int>(high - c)}, c, a3_0);
        a3_0 = most(a3_0, a3_1);
        return Part0{across<W / 2>(a3_0, [](V a, V b) { return most(a, b); })};
      };
      struct Part1 {
        float v6;
        void join(const Part1& other) {
          v6 = plus(v6, other.v6);
        }
      };
      const auto pass1 = [&](const Row& row0, int64_t low, int64_t high) {
        auto* const p0_0 = logits.data + row0.r * cols;
        const V b3_0 = wide(row0.v3);
        const auto step = [&](auto lanes_, int64_t c, V& a6) __attribute__((always_inline)) {
          const V v0_0 = load(p0_0 + c, lanes_);
          const V v4_0 = v0_0 - b3_0;
          const V v5_0 = exponential(v4_0);
          store(row0.k5 + c, v5_0, lanes_);
          a6 = plus(a6, only(v5_0, 0.0f, lanes_));
        };
        V a6_0 = wide(0.0f), a6_1 = wide(0.0f);
        int64_t c = low;
        for (; c + 2 * W <= high; c += 2 * W) {
          step(All{}, c + 0 * W, a6_0);
          step(All{}, c + 1 * W, a6_1);
        }
        for (; c + W <= high; c += W) step(All{}, c, a6_0);
        if (c < high) step(Some{static_cast<int>(high - c)}, c, a6_0);
        a6_0 = plus(a6_0, a6_1);
        return Part1{across<W / 2>(a6_0, [](V a, V b) { return plus(a, b); })};
      };
      auto settle0 = [&](Row& row, Totals& totals) {
        row.v1 = target.data[row.r];
        row.v8 = row.v1 != v7;
        row.v13 = pick(row.v8, row.v1, v12);
        row.v19 = pick(row.v8, v11, v14);
        row.v22 = v17 * row.v19;
      };
      auto settle1 = [&](Row& row, const Part0& part, Totals& totals) {
        row.v3 = part.v3;
      };
      auto settle2 = [&](Row& row, const Part1& part, Totals& totals) {
        row.v6 = part.v6;
      };
      const auto finish1 = [&](const Row& row0, int64_t low, int64_t high) {
        const I b13_0 = wide(static_cast<int>(row0.v13));
        const V b17_0 = wide(v17);
        const V b14_0 = wide(v14);
        const V b19_0 = wide(row0.v19);
        const V b6_0 = wide(row0.v6);
        const V i6_0 = 1.0f / b6_0;
        const V b22_0 = wide(row0.v22);
        auto* const p0_0 = grad_logits.data + row0.r * cols;
        const auto step = [&](auto lanes_, int64_t c) __attribute__((always_inline)) {
          const I v15_0 = lanes() + static_cast<std::int32_t>(c);
          const I v16_0 = v15_0 == b13_0;
          const V v18_0 = pick(v16_0, b17_0, b14_0);
          const V v20_0 = v18_0 * b19_0;
          const V v5_0 = load(row0.k5 + c, lanes_);
          const V v21_0 = v5_0 * i6_0;
          const V v23_0 = v21_0 * b22_0;
          const V v24_0 = v20_0 - v23_0;
          stream(p0_0 + c, v24_0, lanes_);
        };
        int64_t c = low;
        const int64_t ahead = -(reinterpret_cast<std::intptr_t>(p0_0 + low) / 4) & (W - 1);
        if (const int64_t head = std::min(ahead, high - low); head > 0) {
          step(Some{static_cast<int>(head)}, c);
          c += head;
        }
        for (; c + 2 * W <= high; c += 2 * W) {
          step(All{}, c + 0 * W);
          step(All{}, c + 1 * W);
        }
        for (; c + W <= high; c += W) step(All{}, c);
        if (c < high) step(Some{static_cast<int>(high - c)}, c);
      };
      const int most_threads = rows * cols < 16384 ? 1 : omp_get_max_threads();
      const bool split = most_threads > 1 && rows < 4 * most_threads;
      const int64_t pitch = (cols + 31) / 16 * 16;
      static std::vector<float> memory;
      const size_t room = static_cast<size_t>(pitch) * 1 * (split ? 1 : most_threads) + 16;
      if (memory.size() < room) memory.resize(room);
      float* const scratch = aligned(memory.data());
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
        float* const own = scratch + (split ? 0 : me) * 1 * pitch;
        const auto row_at = [&](int64_t r, [[maybe_unused]] int slot) {
          return Row{r, !split || me == 0, own + (0 + 1 * slot + 0) * pitch};
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
            finish1(row, low, high);
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
              finish1(row, 0, cols);
            }
          };
          run(rows * me / team, rows * (me + 1) / team);
        }
        found[me] = totals;
        streamed();
      }
    }
  }
}
