// The device's mathematics: what C lacks, and the intrinsics. Approximations are computed exactly and then rounded.
#pragma once
#include <float.h>
#include <limits.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#include <type_traits>

static inline float rsqrtf(float x) { return static_cast<float>(1.0 / sqrt(static_cast<double>(x))); }
static inline double rsqrt(double x) { return 1.0 / sqrt(x); }
static inline float rsqrt(float x) { return rsqrtf(x); }
static inline float rcbrtf(float x) { return 1.0f / cbrtf(x); }
static inline float normcdff(float x) { return 0.5f * erfcf(-x * 0.70710678f); }
static inline double normcdf(double x) { return 0.5 * erfc(-x * 0.7071067811865476); }
static inline void sincospif(float x, float* s, float* c) { *s = sinf(x * 3.14159265f), *c = cosf(x * 3.14159265f); }
static inline float sinpif(float x) { return static_cast<float>(sin(x * 3.141592653589793)); }
static inline float cospif(float x) { return static_cast<float>(cos(x * 3.141592653589793)); }
static inline float fdividef(float a, float b) { return a / b; }

// The host's library has functions of these names.
#define __expf expf
#define __exp10f exp10f
#define __logf logf
#define __log2f log2f
#define __log10f log10f
#define __powf powf
#define __sinf sinf
#define __cosf cosf
#define __tanf tanf
#define __tanhf tanhf
#define __sincosf sincosf
static inline float __fdividef(float a, float b) { return a / b; }
static inline float __saturatef(float x) { return x > 0.0f ? (x < 1.0f ? x : 1.0f) : 0.0f; }

#define KW_ROUNDED(T, add, sub, mul, div, rcp, root, fma_, fused)                 \
  static inline T add(T a, T b) { volatile T r = a + b; return r; }               \
  static inline T sub(T a, T b) { volatile T r = a - b; return r; }               \
  static inline T mul(T a, T b) { volatile T r = a * b; return r; }               \
  static inline T div(T a, T b) { return a / b; }                                 \
  static inline T rcp(T a) { return 1 / a; }                                      \
  static inline T root(T a) { return static_cast<T>(sqrt(a)); }                   \
  static inline T fma_(T a, T b, T c) { return fused(a, b, c); }
KW_ROUNDED(float, __fadd_rn, __fsub_rn, __fmul_rn, __fdiv_rn, __frcp_rn, __fsqrt_rn, __fmaf_rn, fmaf)
KW_ROUNDED(double, __dadd_rn, __dsub_rn, __dmul_rn, __ddiv_rn, __drcp_rn, __dsqrt_rn, __fma_rn, fma)
#undef KW_ROUNDED
static inline float __frsqrt_rn(float x) { return rsqrtf(x); }

#define KW_BITS(name, To, From) \
  static inline To name(From v) { To r; static_assert(sizeof r == sizeof v, ""); memcpy(&r, &v, sizeof r); return r; }
KW_BITS(__float_as_int, int, float)
KW_BITS(__float_as_uint, unsigned, float)
KW_BITS(__int_as_float, float, int)
KW_BITS(__uint_as_float, float, unsigned)
KW_BITS(__double_as_longlong, long long, double)
KW_BITS(__longlong_as_double, double, long long)
#undef KW_BITS

static inline int __float2int_rn(float x) { return static_cast<int>(nearbyintf(x)); }
static inline int __float2int_rz(float x) { return static_cast<int>(x); }
static inline int __float2int_rd(float x) { return static_cast<int>(floorf(x)); }
static inline int __float2int_ru(float x) { return static_cast<int>(ceilf(x)); }
static inline unsigned __float2uint_rn(float x) { return static_cast<unsigned>(nearbyintf(x)); }
static inline unsigned __float2uint_rz(float x) { return static_cast<unsigned>(x); }
static inline float __int2float_rn(int x) { return static_cast<float>(x); }
static inline float __uint2float_rn(unsigned x) { return static_cast<float>(x); }
static inline float __ll2float_rn(long long x) { return static_cast<float>(x); }
static inline float __double2float_rn(double x) { return static_cast<float>(x); }

static inline int __popc(unsigned x) { return __builtin_popcount(x); }
static inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
static inline int __clz(int x) { return x ? __builtin_clz(unsigned(x)) : 32; }
static inline int __clzll(long long x) { return x ? __builtin_clzll(static_cast<unsigned long long>(x)) : 64; }
static inline int __ffs(int x) { return __builtin_ffs(x); }
static inline int __ffsll(long long x) { return __builtin_ffsll(x); }
static inline unsigned __brev(unsigned x) {
  unsigned r = 0;
  for (int i = 0; i < 32; ++i) r |= (x >> i & 1) << (31 - i);
  return r;
}
static inline int __mul24(int a, int b) { return int((a << 8 >> 8) * static_cast<long long>(b << 8 >> 8)); }
static inline unsigned __umulhi(unsigned a, unsigned b) { return unsigned(static_cast<unsigned long long>(a) * b >> 32); }
static inline int __mulhi(int a, int b) { return int(static_cast<long long>(a) * b >> 32); }
static inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
  return static_cast<unsigned long long>(static_cast<unsigned __int128>(a) * b >> 64);
}
static inline unsigned __byte_perm(unsigned a, unsigned b, unsigned s) {
  unsigned long long both = a | static_cast<unsigned long long>(b) << 32;
  unsigned r = 0;
  for (int i = 0; i < 4; ++i) r |= unsigned(both >> 8 * (s >> 4 * i & 7) & 255) << 8 * i;
  return r;
}

// As CUDA has them in the global namespace: for floats the NaN loses, for the rest the usual conversions hold.
template <class A, class B, class = std::enable_if_t<std::is_arithmetic_v<A> && std::is_arithmetic_v<B>>>
constexpr auto max(A a, B b) {
  using T = std::common_type_t<A, B>;
  if constexpr (std::is_floating_point_v<T>) return static_cast<T>(fmax(static_cast<T>(a), static_cast<T>(b)));
  else return static_cast<T>(a) > static_cast<T>(b) ? static_cast<T>(a) : static_cast<T>(b);
}
template <class A, class B, class = std::enable_if_t<std::is_arithmetic_v<A> && std::is_arithmetic_v<B>>>
constexpr auto min(A a, B b) {
  using T = std::common_type_t<A, B>;
  if constexpr (std::is_floating_point_v<T>) return static_cast<T>(fmin(static_cast<T>(a), static_cast<T>(b)));
  else return static_cast<T>(a) < static_cast<T>(b) ? static_cast<T>(a) : static_cast<T>(b);
}
static inline int umin(unsigned a, unsigned b) { return int(a < b ? a : b); }
static inline int umax(unsigned a, unsigned b) { return int(a < b ? b : a); }
