// rmsnorm:backward: vectors of 16 floats, 2 at a time, equal shares of rows for each thread, 2 passes over a row while it is in cache, streaming stores, 2 rows at once into the column sums, prefetch 512 floats ahead.
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

void kernel(kw::Tensor<const float, 2> x, kw::Tensor<const float, 1> weight, double eps, kw::Tensor<const float, 2> grad_out, kw::Tensor<float, 2> grad_x, kw::Tensor<float, 1> grad_weight) {
  {
    const int64_t rows = x.size(0);
    const int64_t cols = x.size(1);
    const float v5 = static_cast<float>(static_cast<double>(x.size(1)));
    const float v7 = static_cast<float>(eps);
    const float v19 = static_cast<float>(-0.5);
    const float v23 = static_cast<float>(2.0);
    {  // stage 0
      struct Row { int64_t r; bool mine; float v4; float v6; float v8; float v9; float v16; float v17; float v18; float v20; float v21; float v22; };
      struct Totals { };
      struct Part0 {
        float v4;
        float v16;
        void join(const Part0& other) {
          v4 = plus(v4, other.v4);
          v16 = plus(v16, other.v16);
        }
      };
      const auto pass0 = [&](const Row& row0, int64_t low, int64_t high) {
        auto* const p0_0 = x.data + row0.r * cols;
        auto* const p1_0 = grad_out.data + row0.r * cols;
        const auto step = [&](auto lanes_, int64_t c, V& a4, V& a16) __attribute__((always_inline)) {
          __builtin_prefetch(p0_0 + c + 512);
          __builtin_prefetch(p1_0 + c + 512);
          const V v0_0 = load(p0_0 + c, lanes_);
          const V v3_0 = v0_0 * v0_0;
          const V v2_0 = load(p1_0 + c, lanes_);
          const V v1_0 = load(weight.data + c, lanes_);
          const V v12_0 = v2_0 * v1_0;
          const V v14_0 = v12_0 * v0_0;
          a4 = plus(a4, only(v3_0, 0.0f, lanes_));
          a16 = plus(a16, only(v14_0, 0.0f, lanes_));
        };
        V a4_0 = wide(0.0f), a4_1 = wide(0.0f);
        V a16_0 = wide(0.0f), a16_1 = wide(0.0f);
        int64_t c = low;
        for (; c + 2 * W <= high; c += 2 * W) {
          step(All{}, c + 0 * W, a4_0, a16_0);
          step(All{}, c + 1 * W, a4_1, a16_1);
        }
        for (; c + W <= high; c += W) step(All{}, c, a4_0, a16_0);
        if (c < high) step(Some{static_cast<int>(high - c)}, c, a4_0, a16_0);
        a4_0 = plus(a4_0, a4_1);
        a16_0 = plus(a16_0, a16_1);
        return Part0{across<W / 2>(a4_0, [](V a, V b) { return plus(a, b); }), across<W / 2>(a16_0, [](V a, V b) { return plus(a, b); })};
      };
      auto settle0 = [&](Row& row, Totals& totals) {
      };
      auto settle1 = [&](Row& row, const Part0& part, Totals& totals) {
        row.v4 = part.v4;
        row.v6 = row.v4 / v5;
        row.v8 = row.v6 + v7;
        row.v9 = 1.0f / root(row.v8);
        row.v16 = part.v16;
        row.v17 = row.v9 * row.v9;
        row.v18 = row.v17 * row.v9;
        row.v20 = row.v16 * v19;
        row.v21 = row.v20 * row.v18;
        row.v22 = row.v21 / v5;
      };
      const auto finish1 = [&](const Row& row0, int64_t low, int64_t high, float* const c13) {
        auto* const p0_0 = grad_out.data + row0.r * cols;
        const V b9_0 = wide(row0.v9);
        const V b22_0 = wide(row0.v22);
        auto* const p1_0 = x.data + row0.r * cols;
        const V b23_0 = wide(v23);
        auto* const p2_0 = grad_x.data + row0.r * cols;
        const auto step = [&](auto lanes_, int64_t c) __attribute__((always_inline)) {
          const V v2_0 = load(p0_0 + c, lanes_);
          const V v1_0 = load(weight.data + c, lanes_);
          const V v12_0 = v2_0 * v1_0;
          const V v15_0 = v12_0 * b9_0;
          const V v0_0 = load(p1_0 + c, lanes_);
          const V v24_0 = v0_0 * b23_0;
          const V v25_0 = b22_0 * v24_0;
          const V v26_0 = v15_0 + v25_0;
          const V v10_0 = v0_0 * b9_0;
          const V v11_0 = v2_0 * v10_0;
          stream(p2_0 + c, v26_0, lanes_);
          store(c13 + c, plus(load(c13 + c, lanes_), v11_0), lanes_);
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
      const auto finish2 = [&](const Row& row0, const Row& row1, int64_t low, int64_t high, float* const c13) {
        auto* const p0_0 = grad_out.data + row0.r * cols;
        const V b9_0 = wide(row0.v9);
        const V b22_0 = wide(row0.v22);
        auto* const p1_0 = x.data + row0.r * cols;
        const V b23_0 = wide(v23);
        auto* const p2_1 = grad_out.data + row1.r * cols;
        const V b9_1 = wide(row1.v9);
        const V b22_1 = wide(row1.v22);
        auto* const p3_1 = x.data + row1.r * cols;
        auto* const p4_0 = grad_x.data + row0.r * cols;
        auto* const p5_1 = grad_x.data + row1.r * cols;
        const bool even = cols % W == 0;
        const auto step = [&](auto lanes_, int64_t c) __attribute__((always_inline)) {
          const V v2_0 = load(p0_0 + c, lanes_);
          const V v1_0 = load(weight.data + c, lanes_);
          const V v12_0 = v2_0 * v1_0;
          const V v15_0 = v12_0 * b9_0;
          const V v0_0 = load(p1_0 + c, lanes_);
          const V v24_0 = v0_0 * b23_0;
          const V v25_0 = b22_0 * v24_0;
          const V v26_0 = v15_0 + v25_0;
          const V v10_0 = v0_0 * b9_0;
          const V v11_0 = v2_0 * v10_0;
          const V v2_1 = load(p2_1 + c, lanes_);
          const V v12_1 = v2_1 * v1_0;
          const V v15_1 = v12_1 * b9_1;
          const V v0_1 = load(p3_1 + c, lanes_);
          const V v24_1 = v0_1 * b23_0;
          const V v25_1 = b22_1 * v24_1;
          const V v26_1 = v15_1 + v25_1;
          const V v10_1 = v0_1 * b9_1;
          const V v11_1 = v2_1 * v10_1;
          if (even) stream(p4_0 + c, v26_0, lanes_); else store(p4_0 + c, v26_0, lanes_);
          if (even) stream(p5_1 + c, v26_1, lanes_); else store(p5_1 + c, v26_1, lanes_);
          store(c13 + c, plus(load(c13 + c, lanes_), plus(v11_0, v11_1)), lanes_);
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
      const size_t room = static_cast<size_t>(pitch) * 1 * (split ? 1 : most_threads) + 16;
      if (memory.size() < room) memory.resize(room);
      float* const scratch = aligned(memory.data());
      std::vector<Totals> found(most_threads);
      std::vector<Part0> parts0(2 * most_threads);
      #pragma omp parallel num_threads(most_threads)
      {
        const int me = omp_get_thread_num(), team = omp_get_num_threads();
        const int64_t share = ((cols + team - 1) / team + 63) / 64 * 64;
        const int64_t low = split ? std::min(cols, share * me) : 0;
        const int64_t high = split ? std::min(cols, low + share) : cols;
        Totals totals;
        float* const own = scratch + (split ? 0 : me) * 1 * pitch;
        float* const c13 = own + 0 * pitch;
        std::fill(c13 + low, c13 + high, 0.0f);
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
            finish1(row, low, high, c13);
          }
        } else {
          const auto prepared = [&](int64_t r, int slot) {
            Row row = row_at(r, slot);
            settle0(row, totals);
            settle1(row, pass0(row, 0, cols), totals);
            return row;
          };
          const auto run = [&](int64_t r, int64_t end) {
            for (; r + 2 <= end; r += 2) {
              const Row row0 = prepared(r + 0, 0);
              const Row row1 = prepared(r + 1, 1);
              finish2(row0, row1, 0, cols, c13);
            }
            for (; r < end; ++r) {
              [[maybe_unused]] const Row row = prepared(r, 0);
              finish1(row, 0, cols, c13);
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
          for (int t = 1; t < copies; ++t) value = plus(value, scratch[(t * 1 + 0) * pitch + c]);
          grad_weight.data[c] = value;
        }
        streamed();
      }
    }
  }
}
