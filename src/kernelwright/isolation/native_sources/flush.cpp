// Writes back and drops the cache lines of a range, for all cores at once: the mapping is shared memory, and lines
// are dropped by physical address. Loaded into the oracle, never into a runner.
#include <stddef.h>
#include <stdint.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

extern "C" int kw_flush(const void* start, size_t bytes) {
  const char* at = static_cast<const char*>(start);
  const char* end = at + bytes;
#if defined(__x86_64__)
  for (; at < end; at += 64) _mm_clflushopt(const_cast<char*>(at));
  _mm_mfence();
  return 1;
#elif defined(__aarch64__)
  for (; at < end; at += 64) asm volatile("dc civac, %0" ::"r"(at) : "memory");
  asm volatile("dsb sy" ::: "memory");
  return 1;
#else
  (void)at, (void)end;
  return 0;
#endif
}
