// Where threads wait for each other: warps, blocks, clusters, the grid. Part of kw_schedule.h.
#pragma once

static inline unsigned lanes_in(const Block& block, unsigned first, unsigned count, State state) {
  unsigned found = 0;
  for (unsigned i = 0; i < count; ++i) found |= unsigned(block.fibers[first + i].state == state) << i;
  return found;
}

KW_SCHEDULER static unsigned long long combined(Meeting meeting, unsigned long long a, unsigned long long b, bool is_signed) {
  auto less = [&] { return is_signed ? static_cast<long long>(a) < static_cast<long long>(b) : a < b; };
  switch (meeting) {
    case Meeting::add: return a + b;
    case Meeting::least: return less() ? a : b;
    case Meeting::most: return less() ? b : a;
    case Meeting::conjunction: return a & b;
    case Meeting::disjunction: return a | b;
    default: return a ^ b;
  }
}

// What every lane of `group` gets for what it gave. A lane that is not there has nothing but garbage to give.
KW_SCHEDULER static void exchange(Fiber* lanes, unsigned group) {
  unsigned long long given[kWarp];
  unsigned votes = 0;
  for (unsigned i = 0; i < kWarp; ++i) {
    bool there = group >> i & 1;
    given[i] = there ? lanes[i].given : ~0ull;
    if (there && given[i]) votes |= 1u << i;
  }
  unsigned first = static_cast<unsigned>(__builtin_ctz(group));
  bool all_equal = true;
  unsigned long long total = given[first];
  for (unsigned i = first + 1; i < kWarp; ++i)
    if (group >> i & 1) {
      all_equal &= given[i] == given[first];
      total = combined(lanes[first].meeting, total, given[i], lanes[first].is_signed);
    }
  for (unsigned i = first; i < kWarp; ++i) {
    if (!(group >> i & 1)) continue;
    unsigned same = 0;
    for (unsigned j = 0; j < kWarp; ++j) same |= unsigned((group >> j & 1) && given[j] == given[i]) << j;
    switch (lanes[i].meeting) {
      case Meeting::sync: break;
      case Meeting::shuffle: lanes[i].result = given[lanes[i].source]; break;
      case Meeting::ballot: lanes[i].result = votes; break;
      case Meeting::match_any: lanes[i].result = same; break;
      case Meeting::match_all: lanes[i].result = all_equal ? group : 0; break;
      default: lanes[i].result = total;
    }
    lanes[i].state = State::ready;
  }
}

KW_SCHEDULER static bool release_warp(Block& block, unsigned first, unsigned count) {
  unsigned waiting = lanes_in(block, first, count, State::warp), there = ~lanes_in(block, first, count, State::done);
  if (count < kWarp) there &= (1u << count) - 1;
  bool released = false;
  for (unsigned i = 0; i < count; ++i) {
    Fiber& fiber = block.fibers[first + i];
    if (!(waiting >> i & 1)) continue;
    unsigned group = fiber.mask & there;
    if ((group & waiting) != group) continue;
    for (unsigned j = 0; j < count; ++j) {
      if (!(group >> j & 1)) continue;
      const Fiber& other = block.fibers[first + j];
      bool elsewhere = fiber.meeting != Meeting::sync && other.line != fiber.line;
      if (other.mask != fiber.mask || other.meeting != fiber.meeting || elsewhere)
        report("the lanes of a warp meet at different places: lane %u at line %d with mask %#x, lane %u at line %d with "
               "mask %#x", i, fiber.line, fiber.mask, j, other.line, other.mask);
    }
    exchange(block.fibers + first, group);
    waiting &= ~group;
    released = true;
  }
  return released;
}

KW_SCHEDULER static bool all_wait(const Block& block, State state) {
  for (unsigned i = 0; i < machine.threads; ++i)
    if (block.fibers[i].state != state && block.fibers[i].state != State::done) return false;
  return block.left != 0;
}

KW_SCHEDULER static bool release_block(Block& block) {
  if (!all_wait(block, State::block)) return false;
  const Fiber* one = nullptr;
  unsigned long long count = 0, all = 1;
  for (unsigned i = 0; i < machine.threads; ++i) {
    const Fiber& fiber = block.fibers[i];
    if (fiber.state == State::done) continue;
    if (one && one->line != fiber.line)
      report("divergent barrier: threads of block (%u, %u, %u) wait at line %d and at line %d", block.index.x,
             block.index.y, block.index.z, one->line, fiber.line);
    one = &fiber;
    count += fiber.given != 0;
    all &= fiber.given != 0;
  }
  for (unsigned i = 0; i < machine.threads; ++i) {
    Fiber& fiber = block.fibers[i];
    if (fiber.state == State::done) continue;
    fiber.result = count | all << 32;
    fiber.state = State::ready;
  }
  return true;
}

// Those who wait at one of the barriers that threads of a block choose for themselves.
KW_SCHEDULER static unsigned waiting_at(const Block& block, unsigned long long barrier) {
  unsigned count = 0;
  for (unsigned i = 0; i < machine.threads; ++i)
    count += block.fibers[i].state == State::barrier && block.fibers[i].given == barrier;
  return count;
}
KW_SCHEDULER static void release_at(Block& block, unsigned long long barrier) {
  for (unsigned i = 0; i < machine.threads; ++i) {
    Fiber& fiber = block.fibers[i];
    if (fiber.state == State::barrier && fiber.given == barrier) fiber.state = State::ready;
  }
}

KW_SCHEDULER static void set_ready(Block& block) {
  for (unsigned i = 0; i < machine.threads; ++i)
    if (block.fibers[i].state != State::done) block.fibers[i].state = State::ready;
}

KW_SCHEDULER static bool release_clusters() {
  bool released = false;
  for (unsigned i = 0; i < machine.live_count; ++i) {
    unsigned cluster = machine.live[i]->cluster, there = 0;
    bool ready = all_wait(*machine.live[i], State::cluster);
    for (unsigned j = 0; ready && j < machine.live_count; ++j)
      if (machine.live[j]->cluster == cluster) {
        ready = !machine.live[j]->left || all_wait(*machine.live[j], State::cluster);
        ++there;
      }
    if (!ready || there != machine.cluster_size) continue;
    for (unsigned j = 0; j < machine.live_count; ++j)
      if (machine.live[j]->cluster == cluster) set_ready(*machine.live[j]);
    released = true;
  }
  return released;
}

KW_SCHEDULER static bool clusters_ended() {
  for (unsigned i = 0; i < machine.live_count; ++i)
    if (machine.live[i]->left) return false;
  return machine.live_count % machine.cluster_size == 0;
}

KW_SCHEDULER static bool release_grid() {
  if (machine.live_count == 0 || machine.admitted < machine.blocks) return false;
  for (unsigned i = 0; i < machine.live_count; ++i)
    if (!all_wait(*machine.live[i], State::grid)) return false;
  for (unsigned i = 0; i < machine.live_count; ++i) set_ready(*machine.live[i]);
  return true;
}

KW_SCHEDULER static bool anybody_spins() {
  for (unsigned i = 0; i < machine.live_count; ++i)
    for (unsigned j = 0; j < machine.threads; ++j)
      if (machine.live[i]->fibers[j].state == State::ready) return true;
  return false;
}

[[noreturn]] KW_SCHEDULER static void report_standstill() {
  static const char* const names[] = {"", "for lanes of its warp", "at __syncthreads", "for its cluster", "for the grid", "at a barrier of some of its block", ""};
  for (unsigned i = 0; i < machine.live_count; ++i) {
    const Block& block = *machine.live[i];
    const Fiber* one = nullptr;
    for (unsigned j = 0; j < machine.threads; ++j) {
      const Fiber& fiber = block.fibers[j];
      if (fiber.state == State::done) continue;
      if (one && one->state != fiber.state)
        report("divergent barrier: in block (%u, %u, %u) thread (%u, %u, %u) waits %s at line %d and thread (%u, %u, %u) %s "
               "at line %d", block.index.x, block.index.y, block.index.z, one->thread.x, one->thread.y, one->thread.z,
               names[int(one->state)], one->line, fiber.thread.x, fiber.thread.y, fiber.thread.z,
               names[int(fiber.state)], fiber.line);
      one = &fiber;
    }
    if (one)
      report("thread (%u, %u, %u) of block (%u, %u, %u) waits %s at line %d, mask %#x, and nobody comes", one->thread.x,
             one->thread.y, one->thread.z, block.index.x, block.index.y, block.index.z, names[int(one->state)], one->line,
             one->state == State::warp ? one->mask : 0u);
  }
  report("no thread can go on");
}
