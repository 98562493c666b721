// Loads and stores with hints, and atomics. Only one thread runs at a time, so an atomic is a plain update.
#pragma once
#include "kw_types.h"

#define KW_LOAD(name) template <class T> T name(const T* p) { return *p; }
KW_LOAD(__ldg) KW_LOAD(__ldca) KW_LOAD(__ldcg) KW_LOAD(__ldcs) KW_LOAD(__ldlu) KW_LOAD(__ldcv)
#undef KW_LOAD
#define KW_STORE(name) template <class T> void name(T* p, T v) { *p = v; }
KW_STORE(__stwb) KW_STORE(__stcg) KW_STORE(__stcs) KW_STORE(__stwt)
#undef KW_STORE

// Instrumented code is interrupted at its branches only, and there is none between the load and the store.
#define KW_ATOMIC(name, T, value)                                                                        \
  __attribute__((noinline, no_sanitize_coverage)) static inline T name(T* p, T v) {                      \
    T old = *p;                                                                                          \
    *p = static_cast<T>(value);                                                                          \
    return old;                                                                                          \
  }                                                                                                      \
  static inline T name##_block(T* p, T v) { return name(p, v); }                                         \
  static inline T name##_system(T* p, T v) { return name(p, v); }
#define KW_INTEGERS(name, value)                                                                         \
  KW_ATOMIC(name, int, value) KW_ATOMIC(name, unsigned, value) KW_ATOMIC(name, unsigned long long, value)
static inline int kw_sum(int a, int b) { return int(unsigned(a) + unsigned(b)); }
KW_ATOMIC(atomicAdd, int, kw_sum(old, v))
KW_ATOMIC(atomicAdd, unsigned, old + v)
KW_ATOMIC(atomicAdd, unsigned long long, old + v)
KW_ATOMIC(atomicAdd, float, old + v)
KW_ATOMIC(atomicAdd, double, old + v)
KW_ATOMIC(atomicSub, int, kw_sum(old, int(-unsigned(v))))
KW_ATOMIC(atomicSub, unsigned, old - v)
KW_INTEGERS(atomicExch, v)
KW_ATOMIC(atomicExch, float, v)
KW_INTEGERS(atomicMin, (v < old ? v : old))
KW_INTEGERS(atomicMax, (v > old ? v : old))
KW_ATOMIC(atomicMin, long long, (v < old ? v : old))
KW_ATOMIC(atomicMax, long long, (v > old ? v : old))
KW_INTEGERS(atomicAnd, old & v)
KW_INTEGERS(atomicOr, old | v)
KW_INTEGERS(atomicXor, old ^ v)
KW_ATOMIC(atomicInc, unsigned, (old >= v ? 0 : old + 1))
KW_ATOMIC(atomicDec, unsigned, (old == 0 || old > v ? v : old - 1))
KW_ATOMIC(atomicAdd, float2, (float2{old.x + v.x, old.y + v.y}))
KW_ATOMIC(atomicAdd, float4, (float4{old.x + v.x, old.y + v.y, old.z + v.z, old.w + v.w}))
#undef KW_INTEGERS
#undef KW_ATOMIC

template <class T>
__attribute__((noinline, no_sanitize_coverage)) T atomicCAS(T* p, T expected, T v) {
  T old = *p;
  if (old == expected) *p = v;
  return old;
}
