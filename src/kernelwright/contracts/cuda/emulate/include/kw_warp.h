// What the lanes of a warp and the threads of a block do together: barriers, shuffles, votes, matches, reductions.
#pragma once
#include "kw_schedule.h"

namespace kw {

static inline unsigned lane() {
  return (threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) % kWarp;
}

KW_OURS static unsigned long long meet(Meeting meeting, unsigned mask, unsigned long long given, unsigned source, int line, bool is_signed = false) {
  if (!(mask >> lane() & 1)) report("lane %u calls with mask %#x at line %d, in which it is not", lane(), mask, line);
  current->meeting = meeting;
  current->mask = mask;
  current->given = given;
  current->source = source;
  current->is_signed = is_signed;
  wait(State::warp, line);
  return current->result;
}

template <class T>
T shuffled(unsigned mask, T value, unsigned source, int line) {
  static_assert(sizeof(T) <= 8, "a shuffle moves at most 8 bytes");
  unsigned long long bits = 0;
  memcpy(&bits, &value, sizeof(T));
  bits = meet(Meeting::shuffle, mask, bits, source, line);
  memcpy(&value, &bits, sizeof(T));
  return value;
}

KW_OURS static unsigned long long meet_block(unsigned long long given, int line) {
  current->given = given;
  wait(State::block, line);
  return current->result;
}

}  // namespace kw

#define KW_LINE int line = __builtin_LINE()

static inline void __syncthreads(KW_LINE) { kw::meet_block(0, line); }
static inline int __syncthreads_count(int p, KW_LINE) { return int(kw::meet_block(p != 0, line) & 0xffffffff); }
static inline int __syncthreads_and(int p, KW_LINE) { return int(kw::meet_block(p != 0, line) >> 32); }
static inline int __syncthreads_or(int p, KW_LINE) { return (kw::meet_block(p != 0, line) & 0xffffffff) != 0; }
static inline void __syncwarp(unsigned mask = ~0u, KW_LINE) { kw::meet(kw::Meeting::sync, mask, 0, 0, line); }

template <class T>
T __shfl_sync(unsigned mask, T v, int source, int width = 32, KW_LINE) {
  unsigned part = unsigned(width) - 1;
  return kw::shuffled(mask, v, (kw::lane() & ~part) | (unsigned(source) & part), line);
}
template <class T>
T __shfl_up_sync(unsigned mask, T v, unsigned delta, int width = 32, KW_LINE) {
  unsigned l = kw::lane(), within = l & (unsigned(width) - 1);
  return kw::shuffled(mask, v, within < delta ? l : l - delta, line);
}
template <class T>
T __shfl_down_sync(unsigned mask, T v, unsigned delta, int width = 32, KW_LINE) {
  unsigned l = kw::lane(), within = l & (unsigned(width) - 1);
  return kw::shuffled(mask, v, within + delta >= unsigned(width) ? l : l + delta, line);
}
template <class T>
T __shfl_xor_sync(unsigned mask, T v, int with, int width = 32, KW_LINE) {
  unsigned l = kw::lane(), to = l ^ unsigned(with), end = (l & ~(unsigned(width) - 1)) + unsigned(width);
  return kw::shuffled(mask, v, to >= end ? l : to, line);
}

static inline unsigned __ballot_sync(unsigned mask, int p, KW_LINE) {
  return unsigned(kw::meet(kw::Meeting::ballot, mask, p != 0, 0, line));
}
static inline int __any_sync(unsigned mask, int p, KW_LINE) { return __ballot_sync(mask, p, line) != 0; }
static inline int __all_sync(unsigned mask, int p, KW_LINE) { return __ballot_sync(mask, !p, line) == 0; }
template <class T>
unsigned __match_any_sync(unsigned mask, T v, KW_LINE) {
  unsigned long long bits = 0;
  memcpy(&bits, &v, sizeof(T));
  return unsigned(kw::meet(kw::Meeting::match_any, mask, bits, 0, line));
}
template <class T>
unsigned __match_all_sync(unsigned mask, T v, int* all, KW_LINE) {
  unsigned long long bits = 0;
  memcpy(&bits, &v, sizeof(T));
  unsigned found = unsigned(kw::meet(kw::Meeting::match_all, mask, bits, 0, line));
  *all = found != 0;
  return found;
}

#define KW_REDUCE(name, meeting)                                                                            \
  static inline int __reduce_##name##_sync(unsigned mask, int v, KW_LINE) {                                 \
    auto wide = static_cast<unsigned long long>(static_cast<long long>(v));                                 \
    return int(kw::meet(kw::Meeting::meeting, mask, wide, 0, line, true));                                  \
  }                                                                                                         \
  static inline unsigned __reduce_##name##_sync(unsigned mask, unsigned v, KW_LINE) {                       \
    return unsigned(kw::meet(kw::Meeting::meeting, mask, v, 0, line));                                      \
  }
KW_REDUCE(add, add)
KW_REDUCE(min, least)
KW_REDUCE(max, most)
KW_REDUCE(and, conjunction)
KW_REDUCE(or, disjunction)
KW_REDUCE(xor, exclusive)
#undef KW_REDUCE

static inline void __threadfence() { __asm__ volatile("" ::: "memory"); }
static inline void __threadfence_block() { __threadfence(); }
static inline void __threadfence_system() { __threadfence(); }
static inline void __nanosleep(unsigned) { kw::leave(false); }
[[noreturn]] static inline void __trap() { kw::report("__trap was called"); }
// Launches run one after another, so whatever a dependent launch waits for is there.
static inline void cudaGridDependencySynchronize() {}
static inline void cudaTriggerProgrammaticLaunchCompletion() {}
