"""CUDA for warps with two trades: barriers in shared memory, stages that go round, and which steps fall to a block."""

from __future__ import annotations

BARRIERS = """\
// Barriers in shared memory: who waits goes on when as many have arrived as the barrier counts. Waits of one parity
// alternate with those of the other, and the first of parity 1 does not wait.
__device__ __forceinline__ void set_barrier(unsigned long long* const barrier, const unsigned count) {
  asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"l"(__cvta_generic_to_shared(barrier)), "r"(count) : "memory");
}
__device__ __forceinline__ void arrive_at(unsigned long long* const barrier) {
  asm volatile("mbarrier.arrive.shared.b64 _, [%0];" ::"l"(__cvta_generic_to_shared(barrier)) : "memory");
}
// Arrives when all copies have that this thread has asked for.
__device__ __forceinline__ void arrive_with_copies(unsigned long long* const barrier) {
  asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"l"(__cvta_generic_to_shared(barrier)) : "memory");
}
__device__ __forceinline__ void wait_at(unsigned long long* const barrier, const unsigned parity) {
  unsigned done;
  do {
    asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                 : "=r"(done) : "l"(__cvta_generic_to_shared(barrier)), "r"(parity) : "memory");
  } while (!done);
}
// Threads of some warps meet; others do not take part.
template <int Threads>
__device__ __forceinline__ void meet() { asm volatile("bar.sync 1, %0;" ::"n"(Threads) : "memory"); }
template <int Registers>
__device__ __forceinline__ void take_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(Registers));
}
template <int Registers>
__device__ __forceinline__ void leave_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(Registers));
}

// Stages of shared memory that producers fill and consumers empty, round after round.
template <int Stages>
struct Ring {
  int stage = 0;
  unsigned round = 0;
  __device__ __forceinline__ void go_on() {
    if (++stage == Stages) stage = 0, round ^= 1;
  }
};

// Steps of tiles that fall to a block: all of one tile, or an equal share of the steps of all tiles. Calls
// `use(tile, from, to)`.
template <class Core, bool Shared, class Shape>
struct Shares {
  static constexpr int GROUP = 8;
  const int block, blocks, STEPS, DOWN, ACROSS, ALL;
  __device__ __forceinline__ Shares(const Shape& shape, const int block, const int blocks, const int batches = 1)
      : block(block), blocks(blocks), STEPS((shape.DEPTH + Core::DEEP - 1) / Core::DEEP),
        DOWN((shape.ROWS + Core::ROWS - 1) / Core::ROWS), ACROSS((shape.COLS + Core::COLS - 1) / Core::COLS),
        ALL(batches * DOWN * ACROSS * STEPS) {}
  // Where the share of a block begins.
  __device__ __forceinline__ int begin(const int of) const { return static_cast<int>(1ll * ALL * of / blocks); }
  template <class Use>
  __device__ __forceinline__ void visit(const Use& use) const {
    const int end = Shared ? begin(block + 1) : (block + 1) * STEPS;
    for (int at = Shared ? begin(block) : block * STEPS; at < end;) {
      const int from = at % STEPS, to = min(STEPS, from + end - at);
      use(at / STEPS, from, to);
      at += to - from;
    }
  }
  // Tiles that run at the same time share panels: eight rows of tiles at a time, column by column.
  __device__ __forceinline__ void place(const int number, int& top, int& first) const {
    const int tile = number % (DOWN * ACROSS);
    const int high = min(GROUP, DOWN - tile / (GROUP * ACROSS) * GROUP), within = tile % (GROUP * ACROSS);
    top = (tile / (GROUP * ACROSS) * GROUP + within % high) * Core::ROWS, first = within / high * Core::COLS;
  }
  __device__ __forceinline__ int batch(const int number) const { return number / (DOWN * ACROSS); }
  // Puts together the sums of a tile that several blocks have a part in. Whether this block is the last of them, and
  // goes on with all of it. `flag` is in shared memory.
  template <int Threads, int Count>
  __device__ __forceinline__ bool joined(
      float (&sum)[Count], const int tile, float* const sums, unsigned* const came, volatile int* const flag) const {
    const int first = tile * STEPS;
    const auto owner = [&](const int step) { return static_cast<int>(((step + 1ll) * blocks - 1) / ALL); };
    const int one = owner(first), other = owner(first + STEPS - 1);
    const auto part = [&](const int of) {  // a block leaves at most two tiles unfinished: its first and its last
      return sums + (2ll * of + (begin(of) > first ? 0 : 1)) * Count * Threads + 4 * threadIdx.x;
    };
    float* const mine = part(block);
#pragma unroll
    for (int i = 0; i < Count; i += 4)
      *reinterpret_cast<float4*>(mine + i * Threads) = make_float4(sum[i], sum[i + 1], sum[i + 2], sum[i + 3]);
    __threadfence();
    meet<Threads>();
    if (threadIdx.x == 0) *flag = atomicAdd(came + tile, 1u) == static_cast<unsigned>(other - one);
    meet<Threads>();
    if (!*flag) return false;
    if (threadIdx.x == 0) came[tile] = 0;
    __threadfence();
#pragma unroll
    for (int i = 0; i < Count; ++i) sum[i] = 0.0f;
    for (int of = one; of <= other; ++of) {
      const float* const theirs = part(of);
#pragma unroll
      for (int i = 0; i < Count; i += 4) {
        const float4 v = __ldcg(reinterpret_cast<const float4*>(theirs + i * Threads));
        sum[i] += v.x, sum[i + 1] += v.y, sum[i + 2] += v.z, sum[i + 3] += v.w;
      }
    }
    return true;
  }
};
"""
