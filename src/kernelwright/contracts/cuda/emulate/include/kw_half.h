// __half and __nv_bfloat16: every operation is done in float and rounded once, which is exact for + - * / and sqrt.
#pragma once
#include "kw_maths.h"
#include "kw_types.h"

#define KW_NARROW(H, H2)                                                                                    \
  static inline H operator+(H a, H b) { return H(float(a) + float(b)); }                                    \
  static inline H operator-(H a, H b) { return H(float(a) - float(b)); }                                    \
  static inline H operator*(H a, H b) { return H(float(a) * float(b)); }                                    \
  static inline H operator/(H a, H b) { return H(float(a) / float(b)); }                                    \
  static inline H operator-(H a) { return H(-float(a)); }                                                   \
  static inline H& operator+=(H& a, H b) { return a = a + b; }                                              \
  static inline H& operator-=(H& a, H b) { return a = a - b; }                                              \
  static inline H& operator*=(H& a, H b) { return a = a * b; }                                              \
  static inline H& operator/=(H& a, H b) { return a = a / b; }                                              \
  static inline bool operator<(H a, H b) { return float(a) < float(b); }                                    \
  static inline bool operator>(H a, H b) { return float(a) > float(b); }                                    \
  static inline bool operator<=(H a, H b) { return float(a) <= float(b); }                                  \
  static inline bool operator>=(H a, H b) { return float(a) >= float(b); }                                  \
  static inline bool operator==(H a, H b) { return float(a) == float(b); }                                  \
  static inline bool operator!=(H a, H b) { return float(a) != float(b); }                                  \
  static inline H __hadd(H a, H b) { return a + b; }                                                        \
  static inline H __hsub(H a, H b) { return a - b; }                                                        \
  static inline H __hmul(H a, H b) { return a * b; }                                                        \
  static inline H __hdiv(H a, H b) { return a / b; }                                                        \
  static inline H __hneg(H a) { return -a; }                                                                \
  static inline H __habs(H a) { return H(fabsf(float(a))); }                                                \
  static inline H __hfma(H a, H b, H c) { return H(fmaf(float(a), float(b), float(c))); }                   \
  static inline H __hmax(H a, H b) { return H(fmaxf(float(a), float(b))); }                                 \
  static inline H __hmin(H a, H b) { return H(fminf(float(a), float(b))); }                                 \
  static inline bool __hgt(H a, H b) { return a > b; }                                                      \
  static inline bool __hlt(H a, H b) { return a < b; }                                                      \
  static inline bool __hge(H a, H b) { return a >= b; }                                                     \
  static inline bool __hle(H a, H b) { return a <= b; }                                                     \
  static inline bool __heq(H a, H b) { return a == b; }                                                     \
  static inline bool __hisnan(H a) { return float(a) != float(a); }                                         \
  static inline H hexp(H a) { return H(expf(float(a))); }                                                   \
  static inline H hlog(H a) { return H(logf(float(a))); }                                                   \
  static inline H hsqrt(H a) { return H(sqrtf(float(a))); }                                                 \
  static inline H hrsqrt(H a) { return H(rsqrtf(float(a))); }                                               \
  struct alignas(4) H2 { H x, y; };                                                                         \
  static inline H2 operator+(H2 a, H2 b) { return {a.x + b.x, a.y + b.y}; }                                 \
  static inline H2 operator-(H2 a, H2 b) { return {a.x - b.x, a.y - b.y}; }                                 \
  static inline H2 operator*(H2 a, H2 b) { return {a.x * b.x, a.y * b.y}; }                                 \
  static inline H2 __hadd2(H2 a, H2 b) { return a + b; }                                                    \
  static inline H2 __hsub2(H2 a, H2 b) { return a - b; }                                                    \
  static inline H2 __hmul2(H2 a, H2 b) { return a * b; }                                                    \
  static inline H2 __hfma2(H2 a, H2 b, H2 c) { return {__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y)}; }     \
  static inline H2 __hmax2(H2 a, H2 b) { return {__hmax(a.x, b.x), __hmax(a.y, b.y)}; }                     \
  static inline float __low2float(H2 a) { return float(a.x); }                                              \
  static inline float __high2float(H2 a) { return float(a.y); }                                             \
  static inline H atomicAdd(H* p, H v) { H old = *p; *p = old + v; return old; }

struct alignas(2) __half {
  unsigned short bits;
  __half() = default;
  explicit __half(double v) : __half(static_cast<float>(v)) {}
  explicit __half(int v) : __half(static_cast<float>(v)) {}
  __half(float v) {
    _Float16 narrow = static_cast<_Float16>(v);
    memcpy(&bits, &narrow, 2);
  }
  operator float() const {
    _Float16 narrow;
    memcpy(&narrow, &bits, 2);
    return static_cast<float>(narrow);
  }
};
using half = __half;
KW_NARROW(__half, __half2)
using half2 = __half2;
static inline float __half2float(__half v) { return v; }
static inline __half __float2half(float v) { return v; }
static inline __half __float2half_rn(float v) { return v; }
static inline __half2 __floats2half2_rn(float a, float b) { return {a, b}; }
static inline __half2 __float22half2_rn(float2 v) { return {v.x, v.y}; }
static inline float2 __half22float2(__half2 v) { return {v.x, v.y}; }
static inline __half2 __float2half2_rn(float v) { return {v, v}; }
static inline __half2 __halves2half2(__half a, __half b) { return {a, b}; }
static inline __half2 __half2half2(__half v) { return {v, v}; }
static inline __half __low2half(__half2 v) { return v.x; }
static inline __half __high2half(__half2 v) { return v.y; }
static inline unsigned short __half_as_ushort(__half v) { return v.bits; }
static inline __half __ushort_as_half(unsigned short bits) { __half v; v.bits = bits; return v; }
static inline __half2 make_half2(__half a, __half b) { return {a, b}; }

struct alignas(2) __nv_bfloat16 {
  unsigned short bits;
  __nv_bfloat16() = default;
  explicit __nv_bfloat16(double v) : __nv_bfloat16(static_cast<float>(v)) {}
  explicit __nv_bfloat16(int v) : __nv_bfloat16(static_cast<float>(v)) {}
  __nv_bfloat16(float v) {
    unsigned word = __float_as_uint(v);
    bool nan = (word & 0x7fffffffu) > 0x7f800000u;
    bits = static_cast<unsigned short>(nan ? word >> 16 | 0x40u : (word + 0x7fffu + (word >> 16 & 1u)) >> 16);
  }
  operator float() const { return __uint_as_float(static_cast<unsigned>(bits) << 16); }
};
KW_NARROW(__nv_bfloat16, __nv_bfloat162)
using nv_bfloat16 = __nv_bfloat16;
using nv_bfloat162 = __nv_bfloat162;
static inline float __bfloat162float(__nv_bfloat16 v) { return v; }
static inline __nv_bfloat16 __float2bfloat16(float v) { return v; }
static inline __nv_bfloat16 __float2bfloat16_rn(float v) { return v; }
static inline __nv_bfloat162 __floats2bfloat162_rn(float a, float b) { return {a, b}; }
static inline __nv_bfloat162 __float22bfloat162_rn(float2 v) { return {v.x, v.y}; }
static inline float2 __bfloat1622float2(__nv_bfloat162 v) { return {v.x, v.y}; }
static inline __nv_bfloat162 __float2bfloat162_rn(float v) { return {v, v}; }
static inline __nv_bfloat162 __halves2bfloat162(__nv_bfloat16 a, __nv_bfloat16 b) { return {a, b}; }
static inline unsigned short __bfloat16_as_ushort(__nv_bfloat16 v) { return v.bits; }
static inline __nv_bfloat16 __ushort_as_bfloat16(unsigned short bits) { __nv_bfloat16 v; v.bits = bits; return v; }
#undef KW_NARROW
