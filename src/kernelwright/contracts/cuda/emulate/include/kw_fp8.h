// __nv_fp8_e4m3 and __nv_fp8_e5m2: stored only. Their constructors saturate, as CUDA's do.
#pragma once
#include "float8.h"
#include "kw_half.h"

typedef unsigned char __nv_fp8_storage_t;
typedef unsigned short __nv_fp8x2_storage_t;
typedef unsigned __nv_fp8x4_storage_t;
enum __nv_saturation_t { __NV_NOSAT, __NV_SATFINITE };
enum __nv_fp8_interpretation_t { __NV_E4M3, __NV_E5M2 };
struct __half_raw {
  unsigned short x;
  operator __half() const { return __ushort_as_half(x); }
};
struct __half2_raw {
  unsigned short x, y;
  operator __half2() const { return {__ushort_as_half(x), __ushort_as_half(y)}; }
};

static inline __nv_fp8_storage_t __nv_cvt_float_to_fp8(float v, __nv_saturation_t saturation, __nv_fp8_interpretation_t kind) {
  const bool saturates = saturation == __NV_SATFINITE;
  return kind == __NV_E4M3 ? kw::E4M3::narrowed(v, saturates) : kw::E5M2::narrowed(v, saturates);
}
static inline float kw_fp8_to_float(__nv_fp8_storage_t bits, __nv_fp8_interpretation_t kind) {
  return kind == __NV_E4M3 ? kw::E4M3::widened(bits) : kw::E5M2::widened(bits);
}
static inline __nv_fp8_storage_t __nv_cvt_double_to_fp8(double v, __nv_saturation_t s, __nv_fp8_interpretation_t kind) {
  return __nv_cvt_float_to_fp8(static_cast<float>(v), s, kind);
}
static inline __nv_fp8_storage_t __nv_cvt_halfraw_to_fp8(__half_raw v, __nv_saturation_t s, __nv_fp8_interpretation_t kind) {
  return __nv_cvt_float_to_fp8(float(__half(v)), s, kind);
}
static inline __nv_fp8x2_storage_t __nv_cvt_float2_to_fp8x2(float2 v, __nv_saturation_t s, __nv_fp8_interpretation_t kind) {
  return static_cast<__nv_fp8x2_storage_t>(__nv_cvt_float_to_fp8(v.y, s, kind) << 8 | __nv_cvt_float_to_fp8(v.x, s, kind));
}
static inline __half_raw __nv_cvt_fp8_to_halfraw(__nv_fp8_storage_t bits, __nv_fp8_interpretation_t kind) {
  return {__half_as_ushort(__half(kw_fp8_to_float(bits, kind)))};
}
static inline __half2_raw __nv_cvt_fp8x2_to_halfraw2(__nv_fp8x2_storage_t bits, __nv_fp8_interpretation_t kind) {
  return {__nv_cvt_fp8_to_halfraw(static_cast<__nv_fp8_storage_t>(bits), kind).x,
          __nv_cvt_fp8_to_halfraw(static_cast<__nv_fp8_storage_t>(bits >> 8), kind).x};
}

#define KW_FP8(F, KIND)                                                                                            \
  struct F {                                                                                                       \
    __nv_fp8_storage_t __x;                                                                                        \
    F() = default;                                                                                                 \
    explicit F(float v) : __x(__nv_cvt_float_to_fp8(v, __NV_SATFINITE, KIND)) {}                                   \
    explicit F(double v) : F(static_cast<float>(v)) {}                                                             \
    explicit F(int v) : F(static_cast<float>(v)) {}                                                                \
    explicit F(__half v) : F(float(v)) {}                                                                          \
    explicit F(__nv_bfloat16 v) : F(float(v)) {}                                                                   \
    explicit operator float() const { return kw_fp8_to_float(__x, KIND); }                                         \
    explicit operator double() const { return float(*this); }                                                      \
    explicit operator __half() const { return __half(float(*this)); }                                              \
    explicit operator __nv_bfloat16() const { return __nv_bfloat16(float(*this)); }                                \
    explicit operator bool() const { return float(*this) != 0.0f; }                                                \
    explicit operator int() const { return static_cast<int>(float(*this)); }                                       \
  };
#define KW_FP8_FEW(F, FEW, COUNT, FLOATS, KIND, ...)                                                               \
  struct alignas(COUNT) FEW {                                                                                      \
    __nv_fp8x##COUNT##_storage_t __x;                                                                              \
    FEW() = default;                                                                                               \
    explicit FEW(FLOATS v) {                                                                                       \
      const float all[] = {__VA_ARGS__};                                                                           \
      __x = 0;                                                                                                     \
      for (int i = 0; i < COUNT; ++i)                                                                              \
        __x |= static_cast<__nv_fp8x##COUNT##_storage_t>(F(all[i]).__x) << 8 * i;                                  \
    }                                                                                                              \
    explicit operator FLOATS() const {                                                                             \
      float all[COUNT];                                                                                            \
      for (int i = 0; i < COUNT; ++i) all[i] = kw_fp8_to_float(static_cast<__nv_fp8_storage_t>(__x >> 8 * i), KIND); \
      FLOATS v;                                                                                                    \
      memcpy(&v, all, sizeof v);                                                                                   \
      return v;                                                                                                    \
    }                                                                                                              \
  };
KW_FP8(__nv_fp8_e4m3, __NV_E4M3)
KW_FP8(__nv_fp8_e5m2, __NV_E5M2)
KW_FP8_FEW(__nv_fp8_e4m3, __nv_fp8x2_e4m3, 2, float2, __NV_E4M3, v.x, v.y)
KW_FP8_FEW(__nv_fp8_e5m2, __nv_fp8x2_e5m2, 2, float2, __NV_E5M2, v.x, v.y)
KW_FP8_FEW(__nv_fp8_e4m3, __nv_fp8x4_e4m3, 4, float4, __NV_E4M3, v.x, v.y, v.z, v.w)
KW_FP8_FEW(__nv_fp8_e5m2, __nv_fp8x4_e5m2, 4, float4, __NV_E5M2, v.x, v.y, v.z, v.w)
#undef KW_FP8
#undef KW_FP8_FEW
