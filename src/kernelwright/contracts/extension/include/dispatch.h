// AT_DISPATCH_...: one instance of a piece of code for each type of elements, chosen when it runs.
#pragma once
#include "tensor.h"

#define KW_CASE(Name, Type, ...)       \
  case ::c10::ScalarType::Name: {      \
    using scalar_t = Type;             \
    (void)sizeof(scalar_t);            \
    return __VA_ARGS__();              \
  }
#define AT_DISPATCH_CASE(Type, ...)                                                         \
  case Type: {                                                                              \
    using scalar_t = typename ::kw::CppType<Type>::type;                                    \
    (void)sizeof(scalar_t);                                                                 \
    return __VA_ARGS__();                                                                   \
  }
#define AT_DISPATCH_SWITCH(Type, Name, ...)                                                 \
  [&] {                                                                                     \
    const ::c10::ScalarType kw_type = (Type);                                               \
    switch (kw_type) {                                                                      \
      __VA_ARGS__                                                                           \
      default: ::kw::raise("", Name, " is not implemented for ", kw_type);                  \
    }                                                                                       \
  }()
#define KW_FLOATING(...) KW_CASE(Float, float, __VA_ARGS__) KW_CASE(Double, double, __VA_ARGS__)
#define KW_INTEGRAL(...)                                                                    \
  KW_CASE(Byte, uint8_t, __VA_ARGS__) KW_CASE(Char, int8_t, __VA_ARGS__)                    \
  KW_CASE(Short, int16_t, __VA_ARGS__) KW_CASE(Int, int32_t, __VA_ARGS__) KW_CASE(Long, int64_t, __VA_ARGS__)
#define KW_HALF(...) KW_CASE(Half, ::c10::Half, __VA_ARGS__)
#define KW_BFLOAT(...) KW_CASE(BFloat16, ::c10::BFloat16, __VA_ARGS__)

#define AT_DISPATCH_FLOATING_TYPES(T, N, ...) AT_DISPATCH_SWITCH(T, N, KW_FLOATING(__VA_ARGS__))
#define AT_DISPATCH_FLOATING_TYPES_AND_HALF(T, N, ...) \
  AT_DISPATCH_SWITCH(T, N, KW_FLOATING(__VA_ARGS__) KW_HALF(__VA_ARGS__))
#define AT_DISPATCH_REDUCED_FLOATING_TYPES(T, N, ...) \
  AT_DISPATCH_SWITCH(T, N, KW_HALF(__VA_ARGS__) KW_BFLOAT(__VA_ARGS__))
#define AT_DISPATCH_FLOATING_TYPES_AND(E, T, N, ...) \
  AT_DISPATCH_SWITCH(T, N, KW_FLOATING(__VA_ARGS__) AT_DISPATCH_CASE(E, __VA_ARGS__))
#define AT_DISPATCH_FLOATING_TYPES_AND2(E, F, T, N, ...) \
  AT_DISPATCH_SWITCH(T, N, KW_FLOATING(__VA_ARGS__) AT_DISPATCH_CASE(E, __VA_ARGS__) AT_DISPATCH_CASE(F, __VA_ARGS__))
#define AT_DISPATCH_INTEGRAL_TYPES(T, N, ...) AT_DISPATCH_SWITCH(T, N, KW_INTEGRAL(__VA_ARGS__))
#define AT_DISPATCH_ALL_TYPES(T, N, ...) AT_DISPATCH_SWITCH(T, N, KW_FLOATING(__VA_ARGS__) KW_INTEGRAL(__VA_ARGS__))
#define AT_DISPATCH_ALL_TYPES_AND(E, T, N, ...) \
  AT_DISPATCH_SWITCH(T, N, KW_FLOATING(__VA_ARGS__) KW_INTEGRAL(__VA_ARGS__) AT_DISPATCH_CASE(E, __VA_ARGS__))
#define AT_DISPATCH_ALL_TYPES_AND2(E, F, T, N, ...)                                          \
  AT_DISPATCH_SWITCH(T, N, KW_FLOATING(__VA_ARGS__) KW_INTEGRAL(__VA_ARGS__)                 \
                     AT_DISPATCH_CASE(E, __VA_ARGS__) AT_DISPATCH_CASE(F, __VA_ARGS__))
#define AT_DISPATCH_INDEX_TYPES(T, N, ...)                                                   \
  AT_DISPATCH_SWITCH(T, N,                                                                   \
                     KW_INDEX_CASE(Int, int32_t, __VA_ARGS__) KW_INDEX_CASE(Long, int64_t, __VA_ARGS__))
#define KW_INDEX_CASE(Name, Type, ...) \
  case ::c10::ScalarType::Name: {      \
    using index_t = Type;              \
    return __VA_ARGS__();              \
  }

namespace kw {
template <c10::ScalarType type>
struct CppType;
#define KW_TYPE(T, Name) \
  template <>            \
  struct CppType<c10::ScalarType::Name> { using type = T; };
KW_TYPE(uint8_t, Byte) KW_TYPE(int8_t, Char) KW_TYPE(int16_t, Short) KW_TYPE(int32_t, Int) KW_TYPE(int64_t, Long)
KW_TYPE(c10::Half, Half) KW_TYPE(float, Float) KW_TYPE(double, Double) KW_TYPE(bool, Bool) KW_TYPE(c10::BFloat16, BFloat16)
#undef KW_TYPE
}  // namespace kw
