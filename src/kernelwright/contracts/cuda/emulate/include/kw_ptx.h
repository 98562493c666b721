// Instructions that CUDA C++ has no name for: asynchronous copies, and products on tensor cores.
#pragma once
#include "kw_fp8.h"
#include "kw_half.h"
#include "kw_warp.h"

// An address in shared memory is any address here.
static inline size_t __cvta_generic_to_shared(const void* p) { return reinterpret_cast<size_t>(p); }

namespace kw {

struct Copy {
  Copy* next;
  char* to;
  const char* from;
  unsigned bytes, given, group;
};

// Numbers of one byte, as the names of instructions have them.
struct e4m3 { static float value(unsigned bits) { return E4M3::widened(static_cast<unsigned char>(bits)); } };
struct e5m2 { static float value(unsigned bits) { return E5M2::widened(static_cast<unsigned char>(bits)); } };
struct s8 { static int value(unsigned bits) { return static_cast<signed char>(bits); } };
struct u8 { static int value(unsigned bits) { return static_cast<unsigned char>(bits); } };

namespace ptx {

// Copies are made as late as they may be: when their thread waits for them. Who does not wait finds garbage.
KW_OURS static void copy(size_t to, const void* from, unsigned bytes, unsigned given) {
  if (to % bytes || reinterpret_cast<size_t>(from) % bytes) report("an asynchronous copy of %u bytes is misaligned", bytes);
  if (given > bytes) report("an asynchronous copy takes %u of %u bytes", given, bytes);
  auto* made = static_cast<Copy*>(malloc(sizeof(Copy)));
  *made = {nullptr, reinterpret_cast<char*>(to), static_cast<const char*>(from), bytes, given, current->groups};
  (current->first_copy ? current->last_copy->next : current->first_copy) = made;
  current->last_copy = made;
}
KW_OURS static void copy(size_t to, const void* from, unsigned bytes) { copy(to, from, bytes, bytes); }
static inline void commit() { ++current->groups; }
KW_OURS static void wait(unsigned open) {
  while (Copy* one = current->first_copy) {
    if (one->group + open >= current->groups) return;
    memcpy(one->to, one->from, one->given);
    memset(one->to + one->given, 0, one->bytes - one->given);
    current->first_copy = one->next;
    free(one);
  }
}

// Barriers in shared memory: when as many have arrived as it counts, its parity changes and it counts anew.
struct Barrier {
  unsigned short count, missing, parity, mark;
};
constexpr unsigned short kBarrier = 0x6b77;
KW_OURS static Barrier& barrier_at(size_t address) {
  if (address % 8) report("a barrier is misaligned");
  auto& found = *reinterpret_cast<Barrier*>(address);
  if (found.mark != kBarrier) report("a barrier in shared memory that no thread has initialised");
  return found;
}
KW_OURS static void set_barrier(size_t address, unsigned count) {
  if (address % 8) report("a barrier is misaligned");
  if (!count || count > 0xffff) report("the emulator has no barrier of %u arrivals", count);
  const auto all = static_cast<unsigned short>(count);
  *reinterpret_cast<Barrier*>(address) = {all, all, 0, kBarrier};
}
KW_OURS static void arrive(size_t address) {
  Barrier& barrier = barrier_at(address);
  if (--barrier.missing) return;
  barrier.missing = barrier.count;
  barrier.parity ^= 1;
  release_at(*current->block, address);
}
// A thread's copies are made as late as its next arrival with them.
KW_OURS static void arrive_with_copies(size_t address) {
  const unsigned groups = current->groups;
  commit();
  wait(0);
  current->groups = groups;
  arrive(address);
}
KW_OURS static void await(unsigned& done, size_t address, unsigned parity, KW_LINE) {
  while (barrier_at(address).parity == (parity & 1)) {
    current->given = address;
    kw::wait(State::barrier, line);
  }
  done = 1;
}
// Some threads of a block meet; barriers in shared memory have larger addresses than these have numbers.
KW_OURS static void meet_some(unsigned number, unsigned threads, KW_LINE) {
  if (number > 15 || threads % kWarp || !threads) report("there is no barrier %u for %u threads", number, threads);
  if (waiting_at(*current->block, number) + 1 == threads) return release_at(*current->block, number);
  current->given = number;
  kw::wait(State::barrier, line);
}

// What every lane of the warp has in `mine`, while all of them are here.
template <class T, class Use>
__attribute__((no_sanitize_coverage)) void among_lanes(const T& mine, int line, Use use) {
  auto address = static_cast<unsigned long long>(reinterpret_cast<size_t>(&mine));
  meet(Meeting::sync, ~0u, address, 0, line);
  const Fiber* lanes = current - lane();
  use([&](unsigned i) -> const T& { return *reinterpret_cast<const T*>(lanes[i].given); });
  meet(Meeting::sync, ~0u, address, 0, line);
}

// What is subnormal is zero, before and after.
static inline void power_of_two(float& to, float from) {
  const float made = exp2f(fabsf(from) < FLT_MIN ? 0.0f : from);
  to = made < FLT_MIN ? 0.0f : made;
}

// Four matrices of 8 rows of 16 bytes; lane 8 m + r brings the address of row r of matrix m.
static inline void load_matrices(unsigned& a, unsigned& b, unsigned& c, unsigned& d, size_t row, KW_LINE) {
  if (row % 16) report("a row of a matrix is misaligned");
  among_lanes(row, line, [&](auto of) {
    unsigned* to[] = {&a, &b, &c, &d};
    for (unsigned m = 0; m < 4; ++m)
      memcpy(to[m], reinterpret_cast<const char*>(of(8 * m + lane() / 4)) + lane() % 4 * 4, 4);
  });
}

// The same with every matrix transposed.
static inline void load_matrices_turned(unsigned& a, unsigned& b, unsigned& c, unsigned& d, size_t row, KW_LINE) {
  if (row % 16) report("a row of a matrix is misaligned");
  among_lanes(row, line, [&](auto of) {
    unsigned* to[] = {&a, &b, &c, &d};
    for (unsigned m = 0; m < 4; ++m)
      for (unsigned e = 0; e < 2; ++e)
        memcpy(reinterpret_cast<char*>(to[m]) + 2 * e,
               reinterpret_cast<const char*>(of(8 * m + lane() % 4 * 2 + e)) + lane() / 4 * 2, 2);
  });
}

struct Operands {
  unsigned left[4], right[2];
};

static inline float tf32(unsigned bits) { return __uint_as_float(bits & 0xffffe000u); }

// 16 × 8 sums over 8 products, with the last 13 bits of every factor ignored.
static inline void multiply_tf32(float& d0, float& d1, float& d2, float& d3, unsigned a0, unsigned a1, unsigned a2,
                                 unsigned a3, unsigned b0, unsigned b1, float c0, float c1, float c2, float c3, KW_LINE) {
  Operands mine{{a0, a1, a2, a3}, {b0, b1}};
  float sums[] = {c0, c1, c2, c3};
  among_lanes(mine, line, [&](auto of) {
    for (unsigned e = 0; e < 4; ++e) {
      unsigned row = lane() / 4, col = lane() % 4 * 2 + e % 2;
      for (unsigned k = 0; k < 8; ++k)
        sums[e] += tf32(of(row * 4 + k % 4).left[k / 4 * 2 + e / 2]) * tf32(of(col * 4 + k % 4).right[k / 4]);
    }
  });
  d0 = sums[0], d1 = sums[1], d2 = sums[2], d3 = sums[3];
}

// Number `which` of the two 16-bit numbers in a register.
template <class Kind>
static inline float narrow(unsigned bits, unsigned which) {
  Kind found;
  found.bits = static_cast<unsigned short>(bits >> 16 * which);
  return found;
}

// 16 × 8 sums over 16 products of 16-bit numbers.
template <class Kind>
static inline void multiply_narrow(float& d0, float& d1, float& d2, float& d3, unsigned a0, unsigned a1, unsigned a2,
                                   unsigned a3, unsigned b0, unsigned b1, float c0, float c1, float c2, float c3, KW_LINE) {
  Operands mine{{a0, a1, a2, a3}, {b0, b1}};
  float sums[] = {c0, c1, c2, c3};
  among_lanes(mine, line, [&](auto of) {
    for (unsigned e = 0; e < 4; ++e) {
      unsigned row = lane() / 4, col = lane() % 4 * 2 + e % 2;
      for (unsigned k = 0; k < 16; ++k)
        sums[e] += narrow<Kind>(of(row * 4 + k % 8 / 2).left[k / 8 * 2 + e / 2], k % 2) *
                   narrow<Kind>(of(col * 4 + k % 8 / 2).right[k / 8], k % 2);
    }
  });
  d0 = sums[0], d1 = sums[1], d2 = sums[2], d3 = sums[3];
}

// 16 × 8 sums over 32 products of numbers of one byte, four of which are in a register. Tensor cores of some GPUs keep
// fewer bits of sums of 8-bit floats than a float has, which this does not show.
template <class Left, class Right, class Sum>
static inline void multiply_bytes(Sum& d0, Sum& d1, Sum& d2, Sum& d3, unsigned a0, unsigned a1, unsigned a2, unsigned a3,
                                  unsigned b0, unsigned b1, Sum c0, Sum c1, Sum c2, Sum c3, KW_LINE) {
  Operands mine{{a0, a1, a2, a3}, {b0, b1}};
  Sum sums[] = {c0, c1, c2, c3};
  among_lanes(mine, line, [&](auto of) {
    for (unsigned e = 0; e < 4; ++e) {
      unsigned row = lane() / 4, col = lane() % 4 * 2 + e % 2;
      for (unsigned k = 0; k < 32; ++k)
        sums[e] += Left::value(of(row * 4 + k % 16 / 4).left[k / 16 * 2 + e / 2] >> 8 * (k % 4)) *
                   Right::value(of(col * 4 + k % 16 / 4).right[k / 16] >> 8 * (k % 4));
    }
  });
  d0 = sums[0], d1 = sums[1], d2 = sums[2], d3 = sums[3];
}

// Element (row, k) of an operand of 16-bit numbers in shared memory: lines of 128 bytes, whose pieces of 16 bytes change
// places by the line. A line is a row, or with `turned` 64 rows at one k.
template <class Kind>
static float described_element(unsigned long long described, unsigned row, unsigned k, bool turned) {
  const auto begin = reinterpret_cast<size_t>(dynamic_shared);
  const size_t offset = (((described & 0x3fff) << 4) - begin) & 0x3ffff;
  const size_t leading = (described >> 16 & 0x3fff) << 4, stride = (described >> 32 & 0x3fff) << 4;
  if (described >> 62 != 1 || (described >> 49 & 7) != 0)
    report("the emulator has no other form of a warpgroup's operand than lines of 128 bytes, swizzled");
  const size_t inner = turned ? row / 64 * leading + row % 64 * 2 + k / 8 * stride + k % 8 * 128
                              : row / 8 * stride + row % 8 * 128 + k * 2;
  size_t at = begin + offset + inner;
  if (offset + inner + 2 > kMostShared + 128) report("a warpgroup's operand does not lie in dynamic shared memory");
  at ^= (at >> 7 & 7) << 4;
  return *reinterpret_cast<const Kind*>(at);
}

// What a warp does of 64 × 2 Count sums over 16 products, both operands in shared memory: its 16 rows.
template <class Kind, size_t Count>
static inline void multiply_narrow_group(float* const (&sums)[Count], unsigned long long left, unsigned long long right,
                                         bool more, bool left_turned, bool right_turned, KW_LINE) {
  const unsigned first = threadIdx.x / 32 % 4 * 16 + lane() / 4;
  among_lanes(first, line, [&](auto) {
    for (unsigned half = 0; half < 2; ++half) {
      float row[16];
      for (unsigned k = 0; k < 16; ++k) row[k] = described_element<Kind>(left, first + 8 * half, k, left_turned);
      for (unsigned e = 0; e < Count; ++e) {
        if (e % 4 / 2 != half) continue;
        const unsigned col = e / 4 * 8 + lane() % 4 * 2 + e % 2;
        float sum = more ? *sums[e] : 0.0f;
        for (unsigned k = 0; k < 16; ++k) sum += row[k] * described_element<Kind>(right, col, k, right_turned);
        *sums[e] = sum;
      }
    }
  });
}

// What a warp does of 64 × 2 Count sums over 8 products: its 16 rows. The right operand lies in shared memory in lines of
// 128 bytes, whose pieces of 16 bytes change places by the line.
template <size_t Count>
static inline void multiply_group(float* const (&sums)[Count], unsigned a0, unsigned a1, unsigned a2, unsigned a3,
                                  unsigned long long described, bool more, KW_LINE) {
  const auto begin = reinterpret_cast<size_t>(dynamic_shared);
  const size_t offset = (((described & 0x3fff) << 4) - begin) & 0x3ffff;
  if (described >> 62 != 1 || (described >> 32 & 0x3fff) != 64 || (described >> 49 & 7) != 0)
    report("the emulator has no other form of a warpgroup's operand than lines of 128 bytes, swizzled, in eights");
  if (offset + Count / 4 * 1024 > kMostShared + 128) report("a warpgroup's operand does not lie in dynamic shared memory");
  Operands mine{{a0, a1, a2, a3}, {}};
  among_lanes(mine, line, [&](auto of) {
    for (unsigned e = 0; e < Count; ++e) {
      unsigned row = lane() / 4, col = e / 4 * 8 + lane() % 4 * 2 + e % 2;
      float sum = more ? *sums[e] : 0.0f;
      for (unsigned k = 0; k < 8; ++k) {
        size_t at = begin + offset + col * 128 + k * 4;
        at ^= (at >> 7 & 7) << 4;
        sum += tf32(of(row * 4 + k % 4).left[k / 4 * 2 + e % 4 / 2]) * tf32(*reinterpret_cast<const unsigned*>(at));
      }
      *sums[e] = sum;
    }
  });
}

}  // namespace ptx
}  // namespace kw
