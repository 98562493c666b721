"""C++ that rendered kernels share: vectors of the compiler's own, whole and partial, and functions on them.

Functions exist for a vector and for a single float under one name, so that one expression serves both. Elementary
functions are polynomials at float32 accuracy, because the library's are scalar without -ffast-math.
"""

from __future__ import annotations

from kernelwright.proposers.templates.cpp.product import CORE, WINDOWS

_BASE = """\
#include <kernelwright.h>

#include <algorithm>
#include <array>
#include <limits>
#include <type_traits>
#include <vector>

#include <omp.h>
#if defined(__AVX__)
#include <immintrin.h>
#endif

namespace {

using std::int64_t;
constexpr int W = @WIDTH@;  // floats in a vector
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
inline Some upto(int64_t count) { return {static_cast<int>(std::clamp<int64_t>(count, 0, W))}; }

inline V load(const float* from, All) {
  V v;
  std::memcpy(&v, from, sizeof v);
  return v;
}
inline V load(const float* from, Some some) {
#if defined(__AVX512F__) && @WIDTH@ == 16
  return (V)_mm512_maskz_loadu_ps((__mmask16)((1u << some.count) - 1), from);
#elif defined(__AVX__) && @WIDTH@ == 8
  return (V)_mm256_maskload_ps(from, (__m256i)counted(some));
#else
  V v{};
  for (int i = 0; i < some.count; ++i) v[i] = from[i];
  return v;
#endif
}
inline void store(float* to, V v, All) { std::memcpy(to, &v, sizeof v); }
inline void store(float* to, V v, Some some) {
#if defined(__AVX512F__) && @WIDTH@ == 16
  _mm512_mask_storeu_ps(to, (__mmask16)((1u << some.count) - 1), (__m512)v);
#elif defined(__AVX__) && @WIDTH@ == 8
  _mm256_maskstore_ps(to, (__m256i)counted(some), (__m256)v);
#else
  for (int i = 0; i < some.count; ++i) to[i] = v[i];
#endif
}
// Past the caches; `to` is aligned to a whole vector.
inline void stream(float* to, V v, All) {
#if defined(__AVX512F__) && @WIDTH@ == 16
  _mm512_stream_ps(to, (__m512)v);
#elif defined(__AVX__) && @WIDTH@ == 8
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
#if defined(__AVX512F__) && @WIDTH@ == 16
  return (V)_mm512_sqrt_ps((__m512)x);
#elif defined(__AVX__) && @WIDTH@ == 8
  return (V)_mm256_sqrt_ps((__m256)x);
#else
  V y;
  for (int i = 0; i < W; ++i) y[i] = std::sqrt(x[i]);
  return y;
#endif
}
"""

_HALVES = """
// Narrow numbers in memory, floats in registers.
template <class T>
inline V load(const T* from, All) {
  V v;
  for (int i = 0; i < W; ++i) v[i] = static_cast<float>(from[i]);
  return v;
}
template <class T>
inline void store(T* to, V v, All) {
  for (int i = 0; i < W; ++i) to[i] = static_cast<T>(v[i]);
}
inline V load(const kw::bfloat16* from, All) {
  typedef std::uint16_t S __attribute__((vector_size(W * 2)));
  S bits;
  std::memcpy(&bits, from, sizeof bits);
  return (V)(__builtin_convertvector(bits, I) << 16);
}
inline void store(kw::bfloat16* to, V v, All) {
  typedef std::uint32_t U __attribute__((vector_size(W * 4)));
  typedef std::uint16_t S __attribute__((vector_size(W * 2)));
  const U word = (U)v;
  const U even = (word + 0x7fffu + ((word >> 16) & 1u)) >> 16, lost = (word >> 16) | 0x0040u;
  const U made = (word & 0x7fffffffu) > 0x7f800000u ? lost : even;
  const S bits = __builtin_convertvector(made, S);
  std::memcpy(to, &bits, sizeof bits);
}
#if defined(__FLT16_MAX__)
inline V load(const kw::float16* from, All) {
#if defined(__AVX512F__) && @WIDTH@ == 16
  return (V)_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
#elif defined(__F16C__) && @WIDTH@ == 8
  return (V)_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
#else
  V v;
  for (int i = 0; i < W; ++i) v[i] = static_cast<float>(from[i]);
  return v;
#endif
}
inline void store(kw::float16* to, V v, All) {
#if defined(__AVX512F__) && @WIDTH@ == 16
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm512_cvtps_ph((__m512)v, 0));
#elif defined(__F16C__) && @WIDTH@ == 8
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm256_cvtps_ph((__m256)v, 0));
#else
  for (int i = 0; i < W; ++i) to[i] = static_cast<kw::float16>(v[i]);
#endif
}
#endif
template <class T>
inline V load(const T* from, Some some) {
  V v{};
  for (int i = 0; i < some.count; ++i) v[i] = static_cast<float>(from[i]);
  return v;
}
template <class T>
inline void store(T* to, V v, Some some) {
  for (int i = 0; i < some.count; ++i) to[i] = static_cast<T>(v[i]);
}
template <class T, class Lanes>
inline void stream(T* to, V v, Lanes lanes_) {
  store(to, v, lanes_);
}
"""

_TRUTHS = """
inline V load(const bool* from, All) {
  typedef std::uint8_t B __attribute__((vector_size(W)));
  B bytes;
  std::memcpy(&bytes, from, sizeof bytes);
  return __builtin_convertvector(__builtin_convertvector(bytes, I), V);
}
"""

_EXP = """
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
#if defined(__AVX512F__) && @WIDTH@ == 16
  return (V)_mm512_scalef_ps((__m512)p, (__m512)n);
#else
  const I whole = __builtin_convertvector(pick(n == n, n, V{}), I);
  const I half = whole >> 1;
  return p * (V)((half + 127) << 23) * (V)((whole - half + 127) << 23);
#endif
}
inline float exponential(float x) { return std::exp(x); }
"""

_LOG = """
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
"""

_TANH = """
// Near zero a polynomial, because 1 - 2 / (exp(2x) + 1) cancels there.
inline V hyperbolic(V x) {
  const V a = absolute(x), s = x * x;
  V p = s * -5.70498872745e-3f + 2.06390887954e-2f;
  p = p * s + -5.37397155531e-2f;
  p = p * s + 1.33314422036e-1f;
  p = p * s + -3.33332819422e-1f;
  const V near = p * s * x + x;
  const V far = 1.0f - 2.0f / (exponential(a + a) + 1.0f);
  return pick(a < 0.625f, near, pick(x < 0.0f, -far, far));
}
inline float hyperbolic(float x) { return std::tanh(x); }
"""

_ERF = """
// Near zero a polynomial; elsewhere 1 - exp(-x^2) times a polynomial in 1 / (1 + x / 2).
inline V error_function(V x) {
  const V a = absolute(x), s = x * x;
  V p = s * 7.853861353153693e-5f + -8.010193625184903e-4f;
  p = p * s + 5.188327685732524e-3f;
  p = p * s + -2.685381193529856e-2f;
  p = p * s + 1.128358514861418e-1f;
  p = p * s + -3.761262582423300e-1f;
  p = p * s + 1.128379165726710e+0f;
  const V near = p * x;
  const V t = 1.0f / (1.0f + 0.5f * a);
  V q = t * 0.17087277f + -0.82215223f;
  q = q * t + 1.48851587f;
  q = q * t + -1.13520398f;
  q = q * t + 0.27886807f;
  q = q * t + -0.18628806f;
  q = q * t + 0.09678418f;
  q = q * t + 0.37409196f;
  q = q * t + 1.00002368f;
  q = q * t + -1.26551223f;
  const V far = 1.0f - t * exponential(q - s);
  return pick(a < 1.0f, near, pick(x < 0.0f, -far, far));
}
inline float error_function(float x) { return std::erf(x); }
"""

_LANEWISE = """
template <class F>
inline V each(V x, F f) {
  V y;
  for (int i = 0; i < W; ++i) y[i] = f(x[i]);
  return y;
}
inline V power(V x, V y) {
  V z;
  for (int i = 0; i < W; ++i) z[i] = std::pow(x[i], y[i]);
  return z;
}
inline float power(float x, float y) { return std::pow(x, y); }
inline V log_one_plus(V x) { return each(x, [](float a) { return std::log1p(a); }); }
inline float log_one_plus(float x) { return std::log1p(x); }
inline V exp_minus_one(V x) { return each(x, [](float a) { return std::expm1(a); }); }
inline float exp_minus_one(float x) { return std::expm1(x); }
inline V sine(V x) { return each(x, [](float a) { return std::sin(a); }); }
inline float sine(float x) { return std::sin(x); }
inline V cosine(V x) { return each(x, [](float a) { return std::cos(a); }); }
inline float cosine(float x) { return std::cos(x); }
inline V floored(V x) { return each(x, [](float a) { return std::floor(a); }); }
inline float floored(float x) { return std::floor(x); }
inline V nearest_whole(V x) { return each(x, [](float a) { return std::nearbyint(a); }); }
inline float nearest_whole(float x) { return std::nearbyint(x); }
inline V whole_part(V x) { return each(x, [](float a) { return std::trunc(a); }); }
inline float whole_part(float x) { return std::trunc(x); }
"""

_PLACE = """
// The place of an extreme value: the first of equal ones, and NaN before all.
struct Found {
  float value;
  int64_t at;
};
inline bool before(Found a, Found b) {
  const bool an = a.value != a.value, bn = b.value != b.value;
  if (an != bn) return an;
  if (an || a.value == b.value) return a.at < b.at;
  return a.value > b.value;
}
inline void look(V x, int64_t c, V& best, I& at, I counts) {
  const I take = ((x > best) | ((x != x) & (best == best)) | (at < 0)) & counts;
  best = take ? x : best;
  at = take ? lanes() + static_cast<std::int32_t>(c) : at;
}
inline I counted(All) { return I{} == I{}; }
inline Found across(V best, I at) {
  Found found{-INF, std::numeric_limits<int64_t>::max()};
  for (int i = 0; i < W; ++i)
    if (at[i] >= 0 && before({best[i], at[i]}, found)) found = {best[i], at[i]};
  return found;
}
"""

_DEAL = """
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
// As many lanes as there are elements left; the lanes of the result that do not count are never stored.
inline V load_to(const float* from, int64_t left, Some) { return load(from, upto(left)); }
inline All half0(All, int64_t) { return {}; }
inline All half1(All, int64_t) { return {}; }
inline Some half0(Some, int64_t left) { return upto(left); }
inline Some half1(Some, int64_t left) { return upto(left - W); }
"""

_NEEDS = {
    "products<": ("product",),
    "slide_": ("product", "windows"),
    "meet_windows<": ("product", "windows"),
    "evens(": ("deal",),
    "half0(": ("deal",),
    "load_to(": ("deal",),
    "exponential": ("exp",),
    "logarithm": ("log",),
    "hyperbolic": ("exp", "tanh"),
    "error_function": ("exp", "erf"),
    "look(": ("place",),
    "power(": ("each",),
    "log_one_plus": ("each",),
    "exp_minus_one": ("each",),
    "sine(": ("each",),
    "floored": ("each",),
    "nearest_whole": ("each",),
    "whole_part": ("each",),
}
_PARTS = {
    "product": CORE,
    "windows": WINDOWS,
    "deal": _DEAL,
    "exp": _EXP,
    "log": _LOG,
    "tanh": _TANH,
    "erf": _ERF,
    "place": _PLACE,
    "each": _LANEWISE,
}


def prelude(body: str, width: int, *, halves: bool = False, truths: bool = False) -> str:
    """What `body` uses, up to and including the opening of an anonymous namespace that the caller closes."""
    wanted = {part for word, parts in _NEEDS.items() if word in body for part in parts}
    loads = (_HALVES if halves else "") + (_TRUTHS if truths else "")
    text = _BASE + loads + "".join(part for name, part in _PARTS.items() if name in wanted)
    return text.replace("@WIDTH@", str(width))
