// A stack of its own for every CUDA thread, and the switch between two of them.
#pragma once
#include <sys/mman.h>
#include <unistd.h>

#include "kw_types.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#define KW_ASAN 1
#else
#define KW_ASAN 0
#endif
#if !defined(__x86_64__)
#include <ucontext.h>
#endif

// Ours is never interrupted, and never counted as a step of a candidate's thread.
#define KW_OURS __attribute__((noinline, no_sanitize_coverage))
// What touches no memory of a candidate needs no sanitizer, without which it compiles and runs much faster.
#define KW_UNWATCHED no_sanitize_coverage, no_sanitize("address", "undefined")
#define KW_SCHEDULER __attribute__((noinline, KW_UNWATCHED))

namespace kw {

struct Block;
struct Copy;

enum class State : unsigned char { ready, warp, block, cluster, grid, barrier, done };

enum class Meeting : unsigned char { sync, shuffle, ballot, match_any, match_all, add, least, most, conjunction, disjunction, exclusive };

struct Fiber {
#if defined(__x86_64__)
  void* context;
#else
  ucontext_t context;
#endif
  char* stack;
  void* fake;  // the sanitizer's
  Block* block;
  uint3 thread;
  State state;
  bool spun;  // it used up its last turn
  // What it waits for: where in the source, with whom, and what it brings.
  int line;
  unsigned mask;
  Meeting meeting;
  bool is_signed;
  unsigned source;
  unsigned long long given, result;
  // Asynchronous copies that it has begun and not yet waited for, and how many groups of them it has closed.
  Copy *first_copy, *last_copy;
  unsigned groups;
};

constexpr unsigned long kStack = KW_ASAN ? 256 << 10 : 64 << 10;
constexpr unsigned kStacksAtOnce = 64;
constexpr unsigned kRedZone = 1024;  // at the end of a stack, where the sanitizer takes no access

[[noreturn]] void report(const char* format, ...) __attribute__((format(printf, 1, 2)));

KW_SCHEDULER static char* map_stacks() {
  void* got = mmap(nullptr, kStack * kStacksAtOnce, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (got == MAP_FAILED) report("there is no room for more threads at the same time");
#if KW_ASAN
  for (unsigned i = 0; i < kStacksAtOnce; ++i) ASAN_POISON_MEMORY_REGION(static_cast<char*>(got) + i * kStack, kRedZone);
#endif
  return static_cast<char*>(got);
}

struct Main {  // the scheduler's own stack
#if defined(__x86_64__)
  void* context;
#else
  ucontext_t context;
#endif
  void* fake;
  const void* stack;
  unsigned long bytes;
};

void fiber_main();

#if defined(__x86_64__)
extern "C" void kw_switch(void** from, void* to) __attribute__((visibility("hidden")));
__asm__(
    ".text\n.globl kw_switch\n.hidden kw_switch\n.type kw_switch,@function\nkw_switch:\n"
    "pushq %rbp\npushq %rbx\npushq %r12\npushq %r13\npushq %r14\npushq %r15\n"
    "movq %rsp,(%rdi)\nmovq %rsi,%rsp\n"
    "popq %r15\npopq %r14\npopq %r13\npopq %r12\npopq %rbx\npopq %rbp\nret\n"
    ".size kw_switch,.-kw_switch\n");

KW_SCHEDULER static void begin_context(Fiber& fiber) {
  auto* top = reinterpret_cast<unsigned long long*>(fiber.stack + kStack) - 9;
  *top = 0;                                                   // nobody to return to; the stack is aligned as by a call
  *--top = reinterpret_cast<unsigned long long>(&fiber_main);
  for (int i = 0; i < 6; ++i) *--top = 0;
  fiber.context = top;
}
__attribute__((always_inline)) static inline void to_fiber(Main& main, Fiber& fiber) { kw_switch(&main.context, fiber.context); }
__attribute__((always_inline)) static inline void to_main(Main& main, Fiber& fiber) { kw_switch(&fiber.context, main.context); }
#else
KW_SCHEDULER static void begin_context(Fiber& fiber) {
  getcontext(&fiber.context);
  fiber.context.uc_stack.ss_sp = fiber.stack + kRedZone;
  fiber.context.uc_stack.ss_size = kStack - kRedZone;
  fiber.context.uc_link = nullptr;
  makecontext(&fiber.context, fiber_main, 0);
}
__attribute__((always_inline)) static inline void to_fiber(Main& main, Fiber& fiber) { swapcontext(&main.context, &fiber.context); }
__attribute__((always_inline)) static inline void to_main(Main& main, Fiber& fiber) { swapcontext(&fiber.context, &main.context); }
#endif

KW_SCHEDULER static void begin_fiber(Fiber& fiber) {
#if KW_ASAN  // what the thread before on this stack left poisoned
  ASAN_UNPOISON_MEMORY_REGION(fiber.stack + kRedZone, kStack - kRedZone);
#endif
  begin_context(fiber);
  fiber.state = State::ready;
  fiber.spun = false;
  fiber.fake = nullptr;
  fiber.first_copy = fiber.last_copy = nullptr;
  fiber.groups = 0;
}

}  // namespace kw
