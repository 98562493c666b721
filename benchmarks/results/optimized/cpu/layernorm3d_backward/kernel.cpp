// layernorm3d:backward: vectors of 16 floats, 2 at a time, equal shares of rows for each thread, 3 passes over a row while it is in cache, streaming stores, 2 rows at once into the column sums, prefetch 512 floats ahead.
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

}  // namespace

void kernel(kw::Tensor<const float, 4> x, kw::Tensor<const float, 3> weight, kw::Tensor<const float, 3> bias, double eps, kw::Tensor<const float, 4> grad_out, kw::Tensor<float, 4> grad_x, kw::Tensor<float, 3> grad_weight, kw::Tensor<float, 3> grad_bias) {
  {
    const int64_t rows = x.size(0);
    const int64_t cols = x.size(1) * x.size(2) * x.size(3);
    const float v4 = static_cast<float>(static_cast<double>(x.size(1) * x.size(2) * x.size(3)));
    const float v10 = static_cast<float>(eps);
    {  // stage 0
      struct Row { int64_t r; bool mine; float v3; float v5; float v8; float v9; float v11; float v12; float v16; float v18; float v19; float v23; };
      struct Totals { };
      struct Part0 {
        float v3;
        float v16;
        void join(const Part0& other) {
          v3 = plus(v3, other.v3);
          v16 = plus(v16, other.v16);
        }
      };
      const auto pass0 = [&](const Row& row0, int64_t low, int64_t high) {
        auto* const p0_0 = x.data + row0.r * cols;
        auto* const p1_0 = grad_out.data + row0.r * cols;
        const auto step = [&](auto lanes_, int64_t c, V& a3, V& a16) __attribute__((always_inline)) {
          __builtin_prefetch(p0_0 + c + 512);
          __builtin_prefetch(p1_0 + c + 512);
          const V v0_0 = load(p0_0 + c, lanes_);
          const V v2_0 = load(p1_0 + c, lanes_);
          const V v1_0 = load(weight.data + c, lanes_);
          const V v14_0 = v2_0 * v1_0;
          a3 = plus(a3, only(v0_0, 0.0f, lanes_));
          a16 = plus(a16, only(v14_0, 0.0f, lanes_));
        };
        V a3_0 = wide(0.0f), a3_1 = wide(0.0f);
        V a16_0 = wide(0.0f), a16_1 = wide(0.0f);
        int64_t c = low;
        for (; c + 2 * W <= high; c += 2 * W) {
          step(All{}, c + 0 * W, a3_0, a16_0);
          step(All{}, c + 1 * W, a3_1, a16_1);
        }
        for (; c + W <= high; c += W) step(All{}, c, a3_0, a16_0);
        if (c < high) step(Some{static_cast<int>(high - c)}, c, a3_0, a16_0);
        a3_0 = plus(a3_0, a3_1);
        a16_0 = plus(a16_0, a16_1);
        return Part0{across<W / 2>(a3_0, [](V a, V b) { return plus(a, b); }), across<W / 2>(a16_0, [](V a, V b) { return plus(a, b); })};
      };
      struct Part1 {
        float v8;
        float v18;
        void join(const Part1& other) {
          v8 = plus(v8, other.v8);
          v18 = plus(v18, other.v18);
        }
      };
      const auto pass1 = [&](const Row& row0, int64_t low, int64_t high) {
        auto* const p0_0 = x.data + row0.r * cols;
        const V b5_0 = wide(row0.v5);
        auto* const p1_0 = grad_out.data + row0.r * cols;
        const auto step = [&](auto lanes_, int64_t c, V& a8, V& a18) __attribute__((always_inline)) {
          const V v0_0 = load(p0_0 + c, lanes_);
          const V v6_0 = v0_0 - b5_0;
          const V v7_0 = v6_0 * v6_0;
          const V v2_0 = load(p1_0 + c, lanes_);
          const V v1_0 = load(weight.data + c, lanes_);
          const V v14_0 = v2_0 * v1_0;
          const V v17_0 = v14_0 * v6_0;
          a8 = plus(a8, only(v7_0, 0.0f, lanes_));
          a18 = plus(a18, only(v17_0, 0.0f, lanes_));
        };
        V a8_0 = wide(0.0f), a8_1 = wide(0.0f);
        V a18_0 = wide(0.0f), a18_1 = wide(0.0f);
        int64_t c = low;
        for (; c + 2 * W <= high; c += 2 * W) {
          step(All{}, c + 0 * W, a8_0, a18_0);
          step(All{}, c + 1 * W, a8_1, a18_1);
        }
        for (; c + W <= high; c += W) step(All{}, c, a8_0, a18_0);
        if (c < high) step(Some{static_cast<int>(high - c)}, c, a8_0, a18_0);
        a8_0 = plus(a8_0, a8_1);
        a18_0 = plus(a18_0, a18_1);
        return Part1{across<W / 2>(a8_0, [](V a, V b) { return plus(a, b); }), across<W / 2>(a18_0, [](V a, V b) { return plus(a, b); })};
      };
      auto settle0 = [&](Row& row, Totals& totals) {
      };
      auto settle1 = [&](Row& row, const Part0& part, Totals& totals) {
        row.v3 = part.v3;
        row.v5 = row.v3 / v4;
        row.v16 = part.v16;
      };
      auto settle2 = [&](Row& row, const Part1& part, Totals& totals) {
        row.v8 = part.v8;
        row.v9 = row.v8 / v4;
        row.v11 = row.v9 + v10;
        row.v12 = 1.0f / root(row.v11);
        row.v18 = part.v18;
        row.v19 = row.v18 * row.v12;
        row.v23 = row.v12 / v4;
      };
      const auto finish1 = [&](const Row& row0, int64_t low, int64_t high, float* const c26, float* const c27) {
        const V b23_0 = wide(row0.v23);
        auto* const p0_0 = grad_out.data + row0.r * cols;
        const V b4_0 = wide(v4);
        const V b16_0 = wide(row0.v16);
        auto* const p1_0 = x.data + row0.r * cols;
        const V b5_0 = wide(row0.v5);
        const V b12_0 = wide(row0.v12);
        const V b19_0 = wide(row0.v19);
        auto* const p2_0 = grad_x.data + row0.r * cols;
        const auto step = [&](auto lanes_, int64_t c) __attribute__((always_inline)) {
          const V v2_0 = load(p0_0 + c, lanes_);
          const V v1_0 = load(weight.data + c, lanes_);
          const V v14_0 = v2_0 * v1_0;
          const V v15_0 = v14_0 * b4_0;
          const V v21_0 = v15_0 - b16_0;
          const V v0_0 = load(p1_0 + c, lanes_);
          const V v6_0 = v0_0 - b5_0;
          const V v13_0 = v6_0 * b12_0;
          const V v20_0 = v13_0 * b19_0;
          const V v22_0 = v21_0 - v20_0;
          const V v24_0 = b23_0 * v22_0;
          const V v25_0 = v2_0 * v13_0;
          stream(p2_0 + c, v24_0, lanes_);
          store(c26 + c, plus(load(c26 + c, lanes_), v25_0), lanes_);
          store(c27 + c, plus(load(c27 + c, lanes_), v2_0), lanes_);
        };
        int64_t c = low;
        const int64_t ahead = -(reinterpret_cast<std::intptr_t>(p2_0 + low) / 4) & (W - 1);
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
      const auto finish2 = [&](const Row& row0, const Row& row1, int64_t low, int64_t high, float* const c26, float* const c27) {
        const V b23_0 = wide(row0.v23);
        auto* const p0_0 = grad_out.data + row0.r * cols;
        const V b4_0 = wide(v4);
        const V b16_0 = wide(row0.v16);
        auto* const p1_0 = x.data + row0.r * cols;
        const V b5_0 = wide(row0.v5);
        const V b12_0 = wide(row0.v12);
        const V b19_0 = wide(row0.v19);
        const V b23_1 = wide(row1.v23);
        auto* const p2_1 = grad_out.data + row1.r * cols;
        const V b16_1 = wide(row1.v16);
        auto* const p3_1 = x.data + row1.r * cols;
        const V b5_1 = wide(row1.v5);
        const V b12_1 = wide(row1.v12);
        const V b19_1 = wide(row1.v19);
        auto* const p4_0 = grad_x.data + row0.r * cols;
        auto* const p5_1 = grad_x.data + row1.r * cols;
        const bool even = cols % W == 0;
        const auto step = [&](auto lanes_, int64_t c) __attribute__((always_inline)) {
          const V v2_0 = load(p0_0 + c, lanes_);
          const V v1_0 = load(weight.data + c, lanes_);
          const V v14_0 = v2_0 * v1_0;
          const V v15_0 = v14_0 * b4_0;
          const V v21_0 = v15_0 - b16_0;
          const V v0_0 = load(p1_0 + c, lanes_);
          const V v6_0 = v0_0 - b5_0;
          const V v13_0 = v6_0 * b12_0;
          const V v20_0 = v13_0 * b19_0;
          const V v22_0 = v21_0 - v20_0;
          const V v24_0 = b23_0 * v22_0;
          const V v25_0 = v2_0 * v13_0;
          const V v2_1 = load(p2_1 + c, lanes_);
          const V v14_1 = v2_1 * v1_0;
          const V v15_1 = v14_1 * b4_0;
          const V v21_1 = v15_1 - b16_1;
          const V v0_1 = load(p3_1 + c, lanes_);
          const V v6_1 = v0_1 - b5_1;
          const V v13_1 = v6_1 * b12_1;
          const V v20_1 = v13_1 * b19_1;
          const V v22_1 = v21_1 - v20_1;
          const V v24_1 = b23_1 * v22_1;
          const V v25_1 = v2_1 * v13_1;
          if (even) stream(p4_0 + c, v24_0, lanes_); else store(p4_0 + c, v24_0, lanes_);
          if (even) stream(p5_1 + c, v24_1, lanes_); else store(p5_1 + c, v24_1, lanes_);
          store(c26 + c, plus(load(c26 + c, lanes_), plus(v25_0, v25_1)), lanes_);
          store(c27 + c, plus(load(c27 + c, lanes_), plus(v2_0, v2_1)), lanes_);
        };
        int64_t c = low;
        const int64_t ahead = -(reinterpret_cast<std::intptr_t>(p4_0 + low) / 4) & (W - 1);
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
      const size_t room = static_cast<size_t>(pitch) * 2 * (split ? 1 : most_threads) + 16;
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
        float* const own = scratch + (split ? 0 : me) * 2 * pitch;
        float* const c26 = own + 0 * pitch;
        std::fill(c26 + low, c26 + high, 0.0f);
        float* const c27 = own + 1 * pitch;
        std::fill(c27 + low, c27 + high, 0.0f);
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
            finish1(row, low, high, c26, c27);
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
            for (; r + 2 <= end; r += 2) {
              const Row row0 = prepared(r + 0, 0);
              const Row row1 = prepared(r + 1, 1);
              finish2(row0, row1, 0, cols, c26, c27);
            }
            for (; r < end; ++r) {
              [[maybe_unused]] const Row row = prepared(r, 0);
              finish1(row, 0, cols, c26, c27);
            }
          };
          run(rows * me / team, rows * (me + 1) / team);
        }
        found[me] = totals;
        #pragma omp barrier
        const int copies = split ? 1 : team;
        const int64_t first = std::min(cols, share * me), end = std::min(cols, first + share);
        for (int64_t c = first; c < end; ++c) {
          float value = scratch[0 * pitch + c];
          for (int t = 1; t < copies; ++t) value = plus(value, scratch[(t * 2 + 0) * pitch + c]);
          grad_weight.data[c] = value;
        }
        for (int64_t c = first; c < end; ++c) {
          float value = scratch[1 * pitch + c];
          for (int t = 1; t < copies; ++t) value = plus(value, scratch[(t * 2 + 1) * pitch + c]);
          grad_bias.data[c] = value;
        }
        streamed();
      }
    }
  }
}
