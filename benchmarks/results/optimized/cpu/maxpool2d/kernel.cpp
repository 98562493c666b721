// maxpool2d: maxima of 2×2 windows, 16 at a time, equal shares of rows for each thread, streaming stores where rows are whole vectors.
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

// Every second lane of two vectors, and two vectors woven into one another.
template <class F>
inline I numbered(F f) {
  I at;
  for (int i = 0; i < W; ++i) at[i] = f(i);
  return at;
}
inline V evens(V a, V b) { return __builtin_shuffle(a, b, numbered([](int i) { return 2 * i; })); }
inline V odds(V a, V b) { return __builtin_shuffle(a, b, numbered([](int i) { return 2 * i + 1; })); }
inline V woven_low(V a, V b) { return __builtin_shuffle(a, b, numbered([](int i) { return i / 2 + i % 2 * W; })); }
inline V woven_high(V a, V b) {
  return __builtin_shuffle(a, b, numbered([](int i) { return W / 2 + i / 2 + i % 2 * W; }));
}
inline V load_to(const float* from, int64_t, All) { return load(from, All{}); }
inline Some upto(int64_t count) { return {static_cast<int>(std::clamp<int64_t>(count, 0, W))}; }
// As many lanes as there are elements left; the lanes of the result that do not count are never stored.
inline V load_to(const float* from, int64_t left, Some) { return load(from, upto(left)); }
inline All half0(All, int64_t) { return {}; }
inline All half1(All, int64_t) { return {}; }
inline Some half0(Some, int64_t left) { return upto(left); }
inline Some half1(Some, int64_t left) { return upto(left - W); }

}  // namespace

void kernel(kw::Tensor<const float, 4> x, kw::Tensor<float, 4> out) {
  {
    const int64_t planes = x.size(0) * x.size(1), height = x.size(2);
    const int64_t width = x.size(3);
    const int64_t tall = (height + 0 - 2) / 2 + 1, broad = (width + 0 - 2) / 2 + 1;
    #pragma omp parallel for schedule(static) if (planes * height * width >= 4096)
    for (int64_t r = 0; r < planes * tall; ++r) {
      const float* const plane = x.data + r / tall * height * width;
      const int64_t top = r % tall * 2 - 0;
      float* const to = out.data + r * broad;
      const auto alone = [&](int64_t o) {
        float best = -INF;
        for (int64_t y = top; y < top + 2; y += 1)
          for (int64_t x = o * 2 - 0, end = x + 2; x < end; x += 1)
            if (y >= 0 && y < height && x >= 0 && x < width) best = most(best, plane[y * width + x]);
        to[o] = best;
      };
      const int64_t first = std::min<int64_t>(broad, 0), last = std::min<int64_t>(broad, (width + 0 - 2) / 2 + 1);
      for (int64_t o = 0; o < first; ++o) alone(o);
      const bool even = broad % W == 0 && first == 0;
      const int64_t low = std::max<int64_t>(top, top + (-top + 0) / 1 * 1);
      const int64_t under = std::min<int64_t>(height, top + 2);
      const auto step = [&](auto lanes_, int64_t o) __attribute__((always_inline)) {
        V best = wide(-INF);
        const int64_t left = width - (o * 2 - 0);  // elements from the first window to the end of the line
        for (int64_t y = top >= 0 ? top : low; y < under; y += 1) {
          const float* const line = plane + y * width + o * 2 - 0;
          best = most(best, evens(load_to(line + 0, left - 0, lanes_), load_to(line + 0 + W, left - 0 - W, lanes_)));
          best = most(best, odds(load_to(line + 0, left - 0, lanes_), load_to(line + 0 + W, left - 0 - W, lanes_)));
        }
        if (even) stream(to + o, best, lanes_); else store(to + o, best, lanes_);
      };
      int64_t o = first;
      for (; o + W <= last && (o + W) * 2 + 1 <= width + 0; o += W) step(All{}, o);
      for (; o < last; o += W) step(upto(last - o), o);
      for (o = std::max(first, last); o < broad; ++o) alone(o);
    }
  }
}
