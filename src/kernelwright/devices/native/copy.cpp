// How long a copy takes at best: copy BYTES TIMES THREADS prints seconds.
//
// Plain stores read every line before they overwrite it. Streaming stores do not, so a kernel that has them moves fewer
// bytes than a plain copy, and the peak must be theirs. SSE2 is enough, and every x86-64 has it: with the next lines
// asked for ahead and four pages at once, wider stores are no faster.
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <omp.h>
#include <xmmintrin.h>

static constexpr size_t LINE = 64 / sizeof(float), PAGE = 4096 / sizeof(float), PAGES = 4;

static double now() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

static void stream(float* to, const float* from, size_t first, size_t last) {
  for (size_t group = first; group < last; group += PAGES * PAGE) {
    for (size_t line = 0; line < PAGE; line += LINE) {
      for (size_t page = 0; page < PAGES * PAGE; page += PAGE) {
        const size_t at = group + page + line;
        _mm_prefetch(reinterpret_cast<const char*>(from + at + PAGES * PAGE), _MM_HINT_T0);
        for (size_t i = 0; i < LINE; i += 4) _mm_stream_ps(to + at + i, _mm_load_ps(from + at + i));
      }
    }
  }
  _mm_sfence();
}

int main(int count, char** arguments) {
  if (count != 4) return 2;
  const size_t groups = strtoull(arguments[1], nullptr, 10) / (sizeof(float) * PAGES * PAGE);
  const size_t size = groups * PAGES * PAGE;
  const long times = strtol(arguments[2], nullptr, 10);
  const int threads = static_cast<int>(strtol(arguments[3], nullptr, 10));
  float* from = static_cast<float*>(aligned_alloc(4096, size * sizeof(float)));
  float* to = static_cast<float*>(aligned_alloc(4096, size * sizeof(float)));
  if (size == 0 || times < 1 || threads < 1 || from == nullptr || to == nullptr) return 1;

  double best = 1e9;
  for (long time = -1; time < times; ++time) {  // the first call only makes the pages and the threads
    const double start = now();
#pragma omp parallel num_threads(threads)
    {
      const size_t part = omp_get_thread_num(), parts = omp_get_num_threads();
      const size_t first = groups * part / parts * PAGES * PAGE, last = groups * (part + 1) / parts * PAGES * PAGE;
      if (time < 0) for (size_t i = first; i < last; i += LINE) from[i] = to[i] = 1;
      else stream(to, from, first, last);
    }
    const double took = now() - start;
    if (time >= 0 && took < best) best = took;
  }
  printf("%.9f\n", best);
}
