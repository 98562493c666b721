// CUDA's vector types, and where a thread is.
#pragma once

#define KW_VECTOR(name, T)                                                                                      \
  struct name##1 { T x; };                                                                                      \
  struct alignas(2 * sizeof(T)) name##2 { T x, y; };                                                            \
  struct name##3 { T x, y, z; };                                                                                \
  struct alignas(4 * sizeof(T) < 16 ? 4 * sizeof(T) : 16) name##4 { T x, y, z, w; };                            \
  static inline name##1 make_##name##1(T x) { return {x}; }                                                     \
  static inline name##2 make_##name##2(T x, T y) { return {x, y}; }                                             \
  static inline name##3 make_##name##3(T x, T y, T z) { return {x, y, z}; }                                     \
  static inline name##4 make_##name##4(T x, T y, T z, T w) { return {x, y, z, w}; }

KW_VECTOR(char, signed char)
KW_VECTOR(uchar, unsigned char)
KW_VECTOR(short, short)
KW_VECTOR(ushort, unsigned short)
KW_VECTOR(int, int)
KW_VECTOR(uint, unsigned)
KW_VECTOR(long, long)
KW_VECTOR(ulong, unsigned long)
KW_VECTOR(longlong, long long)
KW_VECTOR(ulonglong, unsigned long long)
KW_VECTOR(float, float)
KW_VECTOR(double, double)
#undef KW_VECTOR

struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
  constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z) {}
};

static uint3 threadIdx, blockIdx;  // of the thread that runs now; set whenever it is another
static dim3 blockDim, gridDim;
static constexpr int warpSize = 32;
