// The element types of tensors: c10's numbering, its 16-bit floats, and which C++ type is which.
#pragma once
#include <cstdint>
#include <cstring>
#include <type_traits>

#include <cuda_bf16.h>
#include <cuda_fp16.h>

namespace c10 {

enum class ScalarType : int8_t {
  Byte = 0, Char = 1, Short = 2, Int = 3, Long = 4, Half = 5, Float = 6, Double = 7, Bool = 11, BFloat16 = 15
};
enum class DeviceType : int8_t { CPU = 0, CUDA = 1 };
enum class MemoryFormat : int8_t { Contiguous = 0, Preserve = 1, ChannelsLast = 2, ChannelsLast3d = 3 };
enum class Layout : int8_t { Strided = 0 };
constexpr Layout kStrided = Layout::Strided;

// Both compute in float and round once, as c10's do.
#define KW_NARROW(Name, Native, to_float, from_float)                                                             \
  struct alignas(2) Name {                                                                                        \
    unsigned short x;                                                                                             \
    struct from_bits_t {};                                                                                        \
    static constexpr __host__ __device__ from_bits_t from_bits() { return from_bits_t(); }                        \
    Name() = default;                                                                                             \
    constexpr __host__ __device__ Name(unsigned short bits, from_bits_t) : x(bits) {}                             \
    inline __host__ __device__ Name(float value) {                                                                \
      Native native = from_float(value);                                                                          \
      memcpy(&x, &native, 2);                                                                                     \
    }                                                                                                             \
    inline __host__ __device__ Name(const Native& native) { memcpy(&x, &native, 2); }                             \
    inline __host__ __device__ operator float() const {                                                           \
      Native native;                                                                                              \
      memcpy(&native, &x, 2);                                                                                     \
      return to_float(native);                                                                                    \
    }                                                                                                             \
    inline __host__ __device__ operator Native() const {                                                          \
      Native native;                                                                                              \
      memcpy(&native, &x, 2);                                                                                     \
      return native;                                                                                              \
    }                                                                                                             \
  };                                                                                                              \
  inline __host__ __device__ Name operator+(const Name& a, const Name& b) { return float(a) + float(b); }         \
  inline __host__ __device__ Name operator-(const Name& a, const Name& b) { return float(a) - float(b); }         \
  inline __host__ __device__ Name operator*(const Name& a, const Name& b) { return float(a) * float(b); }         \
  inline __host__ __device__ Name operator/(const Name& a, const Name& b) { return float(a) / float(b); }         \
  inline __host__ __device__ Name operator-(const Name& a) { return -float(a); }                                  \
  inline __host__ __device__ Name& operator+=(Name& a, const Name& b) { return a = a + b; }                       \
  inline __host__ __device__ Name& operator-=(Name& a, const Name& b) { return a = a - b; }                       \
  inline __host__ __device__ Name& operator*=(Name& a, const Name& b) { return a = a * b; }                       \
  inline __host__ __device__ Name& operator/=(Name& a, const Name& b) { return a = a / b; }                       \
  inline __host__ __device__ bool operator<(const Name& a, const Name& b) { return float(a) < float(b); }           \
  inline __host__ __device__ bool operator>(const Name& a, const Name& b) { return float(a) > float(b); }           \
  inline __host__ __device__ bool operator<=(const Name& a, const Name& b) { return float(a) <= float(b); }         \
  inline __host__ __device__ bool operator>=(const Name& a, const Name& b) { return float(a) >= float(b); }         \
  inline __host__ __device__ bool operator==(const Name& a, const Name& b) { return float(a) == float(b); }         \
  inline __host__ __device__ bool operator!=(const Name& a, const Name& b) { return float(a) != float(b); }         \
  KW_MIXED(Name, float, float) KW_MIXED(Name, double, double) KW_MIXED(Name, int, Name) KW_MIXED(Name, int64_t, Name)
#define KW_MIXED(Name, Other, Result)                                                                             \
  inline __host__ __device__ Result operator+(Name a, Other b) { return Result(float(a)) + Result(b); }           \
  inline __host__ __device__ Result operator-(Name a, Other b) { return Result(float(a)) - Result(b); }           \
  inline __host__ __device__ Result operator*(Name a, Other b) { return Result(float(a)) * Result(b); }           \
  inline __host__ __device__ Result operator/(Name a, Other b) { return Result(float(a)) / Result(b); }           \
  inline __host__ __device__ Result operator+(Other a, Name b) { return Result(a) + Result(float(b)); }           \
  inline __host__ __device__ Result operator-(Other a, Name b) { return Result(a) - Result(float(b)); }           \
  inline __host__ __device__ Result operator*(Other a, Name b) { return Result(a) * Result(float(b)); }           \
  inline __host__ __device__ Result operator/(Other a, Name b) { return Result(a) / Result(float(b)); }
KW_NARROW(Half, __half, __half2float, __float2half)
KW_NARROW(BFloat16, __nv_bfloat16, __bfloat162float, __float2bfloat16)
#undef KW_MIXED
#undef KW_NARROW

template <class T>
struct CppTypeToScalarType;
#define KW_TYPE(T, Name) \
  template <>            \
  struct CppTypeToScalarType<T> : std::integral_constant<ScalarType, ScalarType::Name> {};
KW_TYPE(uint8_t, Byte) KW_TYPE(int8_t, Char) KW_TYPE(int16_t, Short) KW_TYPE(int32_t, Int) KW_TYPE(int64_t, Long)
KW_TYPE(long long, Long) KW_TYPE(Half, Half) KW_TYPE(__half, Half) KW_TYPE(float, Float) KW_TYPE(double, Double)
KW_TYPE(bool, Bool) KW_TYPE(BFloat16, BFloat16) KW_TYPE(__nv_bfloat16, BFloat16)
#undef KW_TYPE

inline size_t elementSize(ScalarType type) {
  switch (type) {
    case ScalarType::Byte: case ScalarType::Char: case ScalarType::Bool: return 1;
    case ScalarType::Short: case ScalarType::Half: case ScalarType::BFloat16: return 2;
    case ScalarType::Int: case ScalarType::Float: return 4;
    default: return 8;
  }
}
inline const char* toString(ScalarType type) {
  switch (type) {
    case ScalarType::Byte: return "Byte";
    case ScalarType::Char: return "Char";
    case ScalarType::Short: return "Short";
    case ScalarType::Int: return "Int";
    case ScalarType::Long: return "Long";
    case ScalarType::Half: return "Half";
    case ScalarType::Float: return "Float";
    case ScalarType::Double: return "Double";
    case ScalarType::Bool: return "Bool";
    default: return "BFloat16";
  }
}
inline bool isFloatingType(ScalarType type) {
  return type == ScalarType::Half || type == ScalarType::Float || type == ScalarType::Double ||
         type == ScalarType::BFloat16;
}

}  // namespace c10

#ifndef KW_ARCHITECTURE  // the emulator's takes any type
static __device__ inline c10::Half __ldg(const c10::Half* p) { return c10::Half(__ldg(reinterpret_cast<const __half*>(p))); }
static __device__ inline c10::BFloat16 __ldg(const c10::BFloat16* p) {
  return c10::BFloat16(__ldg(reinterpret_cast<const __nv_bfloat16*>(p)));
}
#endif

namespace at {
using namespace c10;
#define KW_NAME(name, Type) constexpr ScalarType name = ScalarType::Type;
KW_NAME(kByte, Byte) KW_NAME(kUInt8, Byte) KW_NAME(kChar, Char) KW_NAME(kInt8, Char) KW_NAME(kShort, Short)
KW_NAME(kInt16, Short) KW_NAME(kInt, Int) KW_NAME(kInt32, Int) KW_NAME(kLong, Long) KW_NAME(kInt64, Long)
KW_NAME(kHalf, Half) KW_NAME(kFloat16, Half) KW_NAME(kFloat, Float) KW_NAME(kFloat32, Float) KW_NAME(kDouble, Double)
KW_NAME(kFloat64, Double) KW_NAME(kBool, Bool) KW_NAME(kBFloat16, BFloat16)
#undef KW_NAME
constexpr DeviceType kCUDA = DeviceType::CUDA;
constexpr DeviceType kCPU = DeviceType::CPU;

template <class T, bool cuda>
struct AccumulateTypeOf { using type = T; };
template <bool cuda>
struct AccumulateTypeOf<Half, cuda> { using type = float; };
template <bool cuda>
struct AccumulateTypeOf<BFloat16, cuda> { using type = float; };
template <class T, bool cuda>
using acc_type = typename AccumulateTypeOf<T, cuda>::type;
template <class T>
using opmath_type = typename AccumulateTypeOf<T, true>::type;
}  // namespace at
