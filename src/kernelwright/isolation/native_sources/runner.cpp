// The process in which a candidate runs. It holds no answer, no key and no clock whose reading counts,
// and all that it can say is "done".
//
//   runner GO DONE LAYOUT LIBRARY SECCOMP
//
// LAYOUT is a descriptor with one line for each argument, in order:
//   tensor FD BYTES OFFSET EXTENT WRITABLE RANK sizes... strides...
//   real VALUE | integer VALUE
// and may go on with a line "other" and as many lines again, for another workload in memory of its own. A call of the
// first is asked for by "r", one of the others by "1", "2", and so on.
// Guards around every tensor are reserved and unmapped, the arena is mapped, this process is confined, and only
// then is the candidate's library loaded, so that its constructors run inside the sandbox and before any data exists.
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#include <vector>

#include "../../contracts/host_abi.h"
#include "seccomp.hpp"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(start, bytes) ((void)(start), (void)(bytes))
#endif

namespace {

constexpr size_t kGuard = 16u << 20;
constexpr size_t kPage = 4096;

[[noreturn]] void give_up(const char* what) {
  fprintf(stderr, "runner: %s\n", what);
  _exit(121);
}

void* map_between_guards(int fd, size_t bytes, bool writable) {
  size_t whole = (bytes + kPage - 1) / kPage * kPage;
  void* reserved = mmap(nullptr, whole + 2 * kGuard, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (reserved == MAP_FAILED) give_up("cannot reserve guards");
  char* base = static_cast<char*>(reserved) + kGuard;
  int protection = writable ? PROT_READ | PROT_WRITE : PROT_READ;
  if (mmap(base, whole, protection, MAP_SHARED | MAP_FIXED | MAP_POPULATE, fd, 0) == MAP_FAILED)
    give_up("cannot map the arena");
  close(fd);
  return base;
}

using Arguments = std::vector<kw_argument>;

std::vector<Arguments> read_layout(int fd) {
  FILE* layout = fdopen(fd, "r");
  if (!layout) give_up("no layout");
  std::vector<Arguments> workloads(1);
  char kind[16];
  while (fscanf(layout, "%15s", kind) == 1) {
    if (strcmp(kind, "other") == 0) {
      workloads.emplace_back();
      continue;
    }
    kw_argument argument{};
    if (strcmp(kind, "real") == 0) {
      if (fscanf(layout, "%lf", &argument.real) != 1) give_up("bad layout");
    } else if (strcmp(kind, "integer") == 0) {
      if (fscanf(layout, "%ld", &argument.integer) != 1) give_up("bad layout");
    } else {
      int tensor_fd, writable, rank;
      size_t bytes, offset, extent;
      if (fscanf(layout, "%d %zu %zu %zu %d %d", &tensor_fd, &bytes, &offset, &extent, &writable, &rank) != 6)
        give_up("bad layout");
      for (int d = 0; d < rank; ++d)
        if (fscanf(layout, "%ld", &argument.sizes[d]) != 1) give_up("bad layout");
      for (int d = 0; d < rank; ++d)
        if (fscanf(layout, "%ld", &argument.strides[d]) != 1) give_up("bad layout");
      char* base = static_cast<char*>(map_between_guards(tensor_fd, bytes, writable != 0));
      argument.data = base + offset;
      // The sanitizers know where a tensor begins, and where an output ends, which canaries tell after the fact only.
      ASAN_POISON_MEMORY_REGION(base, offset);
      if (writable) ASAN_POISON_MEMORY_REGION(base + offset + extent, bytes - offset - extent);
    }
    workloads.back().push_back(argument);
  }
  fclose(layout);
  return workloads;
}

// How this thread's processor rounds, and what it does with subnormal numbers. The calling convention has a function
// leave that as it found it: a kernel that does not changes everything that its caller's thread computes afterwards.
unsigned long floating_point_mode() {
#if defined(__x86_64__)
  unsigned short x87;
  asm volatile("fnstcw %0" : "=m"(x87));
  return (_mm_getcsr() & ~0x3fu) | static_cast<unsigned long>(x87) << 32;  // without the flags of what has happened
#elif defined(__aarch64__)
  unsigned long mode;
  asm volatile("mrs %0, fpcr" : "=r"(mode));
  return mode;
#else
  return 0;
#endif
}

void on_abort(int) { _exit(134); }  // as the first process of a namespace, a plain SIGABRT would be ignored

}  // namespace

#ifdef KW_SANITIZED
// A candidate that could send the sanitizers' report elsewhere, or be called before it is written, would pass with a
// fault. Its calls find these first, which do nothing.
extern "C" {
__attribute__((visibility("default"), used)) void __sanitizer_set_report_fd(void*) {}
__attribute__((visibility("default"), used)) void __sanitizer_set_report_path(const char*) {}
__attribute__((visibility("default"), used)) void __sanitizer_set_death_callback(void (*)(void)) {}
__attribute__((visibility("default"), used)) void __asan_set_death_callback(void (*)(void)) {}
__attribute__((visibility("default"), used)) void __asan_set_error_report_callback(void (*)(const char*)) {}
}
#endif

int main(int argc, char** argv) {
  if (argc != 6) give_up("usage: runner GO DONE LAYOUT LIBRARY SECCOMP");
  int go = atoi(argv[1]), done = atoi(argv[2]);
  std::vector<Arguments> workloads = read_layout(atoi(argv[3]));
  const unsigned long mode = floating_point_mode();
  bool sanitizer = strcmp(argv[5], "sanitizer") == 0;
#ifdef KW_SANITIZED
  dup2(2, 0);  // a report that is sent to any of the standard descriptors arrives
#endif
  signal(SIGABRT, on_abort);
  if (strcmp(argv[5], "none") != 0 && !kw::confine_runner(sanitizer)) give_up("seccomp is not available");

  void* library = dlopen(argv[4], RTLD_NOW | RTLD_LOCAL);
  if (!library) give_up(dlerror());
  using Entry = void (*)(const kw_argument*);
  Entry run = reinterpret_cast<Entry>(dlsym(library, "kw_run"));
  Entry prepare = reinterpret_cast<Entry>(dlsym(library, "kw_prepare"));
  if (!run) give_up("the library has no kw_run");

  char op = 0;
  do {
    if (op == 'p') {
      if (prepare) prepare(workloads[0].data());
    } else if (op) {
      size_t which = op == 'r' ? 0 : static_cast<size_t>(op - '0');
      if (which >= workloads.size()) give_up("no such workload");
      run(workloads[which].data());
    }
    if (floating_point_mode() != mode) give_up("the kernel leaves the floating-point mode of its thread changed");
    if (write(done, "d", 1) != 1) return 120;
  } while (read(go, &op, 1) == 1);
  return 0;
}
