// Runs the threads of a grid: which blocks are live, who runs next, who waits for whom.
//
// A thread runs until it waits, ends, or has used up its turn; the compiler calls us at every step
// (-fsanitize-coverage=trace-pc), so that a thread that spins on memory lets the others write it. Blocks become live one
// by one, another whenever the live ones cannot go on, and never more than would be resident on the target.
#pragma once
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kw_fiber.h"

namespace kw {

constexpr unsigned kWarp = 32;
constexpr unsigned kMostShared = 256 << 10;
constexpr int kTurn = 20000, kSpinningTurn = 200;  // steps of a thread before it is another's turn
constexpr unsigned kLongestTurnByChance = 1000, kPatience = 8;
constexpr unsigned kThreadsPerMultiprocessor = 2048, kBlocksPerMultiprocessor = 32;

#define KW_SHARED __attribute__((section("kw_shared")))
extern "C" char __start_kw_shared[] __attribute__((visibility("hidden")));
extern "C" char __stop_kw_shared[] __attribute__((visibility("hidden")));
KW_SHARED __attribute__((used)) static unsigned long long at_least_one = 0;
alignas(1024) static char dynamic_shared[kMostShared];

struct Block {
  Block* next_free;
  uint3 index;
  unsigned cluster, rank;
  unsigned left;  // threads that have not ended
  bool entered;
  Fiber* fibers;
  unsigned long long *shared, *dynamic;  // its shared memory while another block runs
};

struct Geometry {
  const char* kernel;
  dim3 grid, block, cluster;
  unsigned shared;
  bool cooperative, clustered;
  unsigned multiprocessors, shared_per_multiprocessor;
};

struct Machine {
  // Kept from call to call.
  unsigned calls;
  char** free_stacks;
  unsigned stacks_free, stacks_room;
  // Of the launch under way.
  Geometry geometry;
  void (*body)(const void*);
  const void* arguments;
  unsigned threads, cluster_size;
  unsigned long long blocks, admitted, retired;
  Block** live;
  unsigned live_count, capacity;
  Block* free_blocks;
  Block* inside;  // whose shared memory lies where the kernel looks for it
  Main main;
  unsigned long long chance;
};

static Machine machine;
static Fiber* current;
static int budget;

KW_SCHEDULER void report(const char* format, ...) {
  char text[512];
  va_list values;
  va_start(values, format);
  int length = vsnprintf(text, sizeof text, format, values);
  va_end(values);
  fprintf(stderr, "emulator: %s: %.*s\n", machine.geometry.kernel ? machine.geometry.kernel : "the plan", length, text);
  if (current)
    fprintf(stderr, "emulator: in thread (%u, %u, %u) of block (%u, %u, %u)\n", threadIdx.x, threadIdx.y, threadIdx.z,
            blockIdx.x, blockIdx.y, blockIdx.z);
  fflush(stderr);
  _exit(97);
}

KW_SCHEDULER static void leave(bool for_good) {
  Fiber& fiber = *current;
#if KW_ASAN
  __sanitizer_start_switch_fiber(for_good ? nullptr : &fiber.fake, machine.main.stack, machine.main.bytes);
#else
  (void)for_good;
#endif
  to_main(machine.main, fiber);
#if KW_ASAN
  __sanitizer_finish_switch_fiber(fiber.fake, &machine.main.stack, &machine.main.bytes);
#endif
}

KW_SCHEDULER static void wait(State state, int line) {
  current->line = line;
  current->state = state;
  leave(false);
}

KW_SCHEDULER void fiber_main() {
#if KW_ASAN
  __sanitizer_finish_switch_fiber(nullptr, &machine.main.stack, &machine.main.bytes);
#endif
  machine.body(machine.arguments);
  current->state = State::done;
  --current->block->left;
  leave(true);
  abort();
}

__attribute__((KW_UNWATCHED)) static inline unsigned chance(unsigned below) {
  machine.chance ^= machine.chance << 13;
  machine.chance ^= machine.chance >> 7;
  machine.chance ^= machine.chance << 17;
  return static_cast<unsigned>(machine.chance >> 33) % below;
}

// In what order threads and warps take their turns: upwards, downwards, and from then on at random.
enum class Order { up, down, random };
__attribute__((KW_UNWATCHED)) static inline Order order() {
  return machine.calls == 0 ? Order::up : machine.calls == 1 ? Order::down : Order::random;
}
__attribute__((KW_UNWATCHED)) static inline unsigned turn(unsigned k, unsigned count, unsigned start) {
  return order() == Order::up ? k : order() == Order::down ? count - 1 - k : (start + k) % count;
}

KW_SCHEDULER static void resume(Fiber& fiber) {
  threadIdx = fiber.thread;
  budget = fiber.spun ? kSpinningTurn : kTurn;
  if (order() == Order::random) budget = 1 + static_cast<int>(chance(kLongestTurnByChance));
  current = &fiber;
#if KW_ASAN
  __sanitizer_start_switch_fiber(&machine.main.fake, fiber.stack, kStack);
#endif
  to_fiber(machine.main, fiber);
#if KW_ASAN
  __sanitizer_finish_switch_fiber(machine.main.fake, nullptr, nullptr);
#endif
  current = nullptr;
  fiber.spun = fiber.state == State::ready;
}

// Word by word and not by memcpy, which would find the sanitizer's red zones between the variables.
KW_SCHEDULER static void copy_words(
    volatile unsigned long long* to, const volatile unsigned long long* from, unsigned long bytes) {
  for (unsigned long i = 0; i < bytes / 8; ++i) to[i] = from ? from[i] : ~0ull;
  auto* last_to = reinterpret_cast<volatile char*>(to);
  auto* last_from = reinterpret_cast<const volatile char*>(from);
  for (unsigned long i = bytes & ~7ul; i < bytes; ++i) last_to[i] = from ? last_from[i] : char(-1);
}
__attribute__((KW_UNWATCHED)) static unsigned long static_bytes() { return static_cast<unsigned long>(__stop_kw_shared - __start_kw_shared); }
__attribute__((KW_UNWATCHED)) static unsigned long dynamic_bytes() { return (machine.geometry.shared + 7ul) & ~7ul; }

KW_SCHEDULER static void enter(Block& block) {
  auto* fixed = reinterpret_cast<unsigned long long*>(__start_kw_shared);
  auto* dynamic = reinterpret_cast<unsigned long long*>(dynamic_shared);
  if (machine.inside != &block) {
    if (Block* old = machine.inside) {
      copy_words(old->shared, fixed, static_bytes());
      copy_words(old->dynamic, dynamic, dynamic_bytes());
    }
    // A block finds garbage in its shared memory; ours is a NaN, which shows.
    copy_words(fixed, block.entered ? block.shared : nullptr, static_bytes());
    copy_words(dynamic, block.entered ? block.dynamic : nullptr, dynamic_bytes());
    block.entered = true;
    machine.inside = &block;
  }
  blockIdx = block.index;
}

#include "kw_meet.h"

// The lanes of one warp, until none of them can go on by itself. Says whether one ended or came to wait.
KW_SCHEDULER static bool run_warp(Block& block, unsigned first) {
  unsigned count = machine.threads - first < kWarp ? machine.threads - first : kWarp;
  bool moved = false;
  do {
    unsigned start = order() == Order::random ? chance(count) : 0;
    for (unsigned k = 0; k < count; ++k) {
      Fiber& fiber = block.fibers[first + turn(k, count, start)];
      if (fiber.state != State::ready) continue;
      resume(fiber);
      moved |= fiber.state != State::ready;
    }
  } while (release_warp(block, first, count));
  return moved;
}

KW_SCHEDULER static bool run_block(Block& block) {
  enter(block);
  bool progress = false;
  for (;;) {
    bool moved = false;
    unsigned warps = (machine.threads + kWarp - 1) / kWarp, start = order() == Order::random ? chance(warps) : 0;
    for (unsigned k = 0; k < warps; ++k) moved |= run_warp(block, kWarp * turn(k, warps, start));
    bool released = release_block(block);
    progress |= moved || released;
    if (!block.left || (!moved && !released)) return progress;
  }
}

KW_SCHEDULER static Block* new_block() {
  if (Block* found = machine.free_blocks) {
    machine.free_blocks = found->next_free;
    return found;
  }
  auto* made = static_cast<Block*>(calloc(1, sizeof(Block)));
  made->fibers = static_cast<Fiber*>(calloc(machine.threads, sizeof(Fiber)));
  made->shared = static_cast<unsigned long long*>(malloc(static_bytes() + 8));
  made->dynamic = static_cast<unsigned long long*>(malloc(dynamic_bytes() + 8));
  for (unsigned i = 0; i < machine.threads; ++i) {
    if (!machine.stacks_free) {
      machine.stacks_room += kStacksAtOnce;
      machine.free_stacks = static_cast<char**>(realloc(machine.free_stacks, machine.stacks_room * sizeof(char*)));
      char* more = map_stacks();
      for (unsigned j = 0; j < kStacksAtOnce; ++j) machine.free_stacks[machine.stacks_free++] = more + j * kStack;
    }
    made->fibers[i].stack = machine.free_stacks[--machine.stacks_free];
  }
  return made;
}

// The next block of the grid becomes live; clusters come one after another, so that theirs are neighbours.
KW_SCHEDULER static bool admit() {
  if (machine.admitted == machine.blocks || machine.live_count >= machine.capacity) return false;
  const Geometry& g = machine.geometry;
  unsigned long long number = machine.admitted++;
  if (order() == Order::down) number = machine.blocks - 1 - number;
  Block& block = *(machine.live[machine.live_count++] = new_block());
  block.cluster = static_cast<unsigned>(number / machine.cluster_size);
  block.rank = static_cast<unsigned>(number % machine.cluster_size);
  unsigned wide = g.grid.x / g.cluster.x, high = g.grid.y / g.cluster.y;
  block.index.x = block.cluster % wide * g.cluster.x + block.rank % g.cluster.x;
  block.index.y = block.cluster / wide % high * g.cluster.y + block.rank / g.cluster.x % g.cluster.y;
  block.index.z = block.cluster / wide / high * g.cluster.z + block.rank / g.cluster.x / g.cluster.y;
  block.left = machine.threads;
  block.entered = false;
  for (unsigned i = 0; i < machine.threads; ++i) {
    Fiber& fiber = block.fibers[i];
    fiber.block = &block;
    fiber.thread = {i % g.block.x, i / g.block.x % g.block.y, i / g.block.x / g.block.y};
    begin_fiber(fiber);
  }
  return true;
}

KW_SCHEDULER static void retire_ended() {
  unsigned kept = 0;
  for (unsigned i = 0; i < machine.live_count; ++i) {
    Block* block = machine.live[i];
    if (block->left) {
      machine.live[kept++] = block;
      continue;
    }
    ++machine.retired;
    if (machine.inside == block) machine.inside = nullptr;
    block->next_free = machine.free_blocks;
    machine.free_blocks = block;
  }
  machine.live_count = kept;
}

KW_SCHEDULER static void run_grid() {
  unsigned stalled = 0;  // rounds in which nobody ended or came to wait
  while (machine.retired < machine.blocks) {
    bool progress = machine.live_count == 0 && admit();
    for (unsigned i = 0; i < machine.live_count; ++i) progress |= run_block(*machine.live[i]);
    // The blocks of a cluster see each other's shared memory, so they end together.
    if (machine.cluster_size == 1 || clusters_ended()) retire_ended();
    progress |= release_clusters();
    progress |= release_grid();
    stalled = progress ? 0 : stalled + 1;
    if (!stalled) continue;
    bool spinning = anybody_spins();
    if (spinning && order() == Order::random && stalled < kPatience) continue;  // it may just compute
    if (!admit() && !spinning) report_standstill();
  }
}

KW_SCHEDULER static void free_blocks() {
  while (Block* block = machine.free_blocks) {
    machine.free_blocks = block->next_free;
    for (unsigned i = 0; i < machine.threads; ++i) machine.free_stacks[machine.stacks_free++] = block->fibers[i].stack;
    free(block->fibers);
    free(block->shared);
    free(block->dynamic);
    free(block);
  }
}

}  // namespace kw

// Called by the compiler's instrumentation at every basic block of the candidate.
extern "C" __attribute__((visibility("hidden"))) KW_SCHEDULER void __sanitizer_cov_trace_pc() {
  if (--kw::budget > 0 || !kw::current) return;
  kw::leave(false);
}
