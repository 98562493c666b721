// Cooperative groups: the block, tiles of a warp, the cluster and the grid.
#pragma once
#include "kw_warp.h"

namespace kw {

// Where the shared memory of another block of the cluster lies while this one runs.
KW_OURS static char* in_block_of_rank(char* p, unsigned rank) {
  const Block& here = *current->block;
  if (rank == here.rank) return p;
  for (unsigned i = 0; i < machine.live_count; ++i) {
    Block& other = *machine.live[i];
    if (other.cluster != here.cluster || other.rank != rank) continue;
    if (p >= dynamic_shared && p < dynamic_shared + sizeof dynamic_shared)
      return reinterpret_cast<char*>(other.dynamic) + (p - dynamic_shared);
    if (p >= __start_kw_shared && p < __stop_kw_shared) return reinterpret_cast<char*>(other.shared) + (p - __start_kw_shared);
    report("map_shared_rank was given an address outside of shared memory");
  }
  report("block %u of the cluster is not there yet: wait for the cluster first", rank);
}

}  // namespace kw

namespace cooperative_groups {

struct thread_block {
  static void sync(KW_LINE) { __syncthreads(line); }
  static unsigned thread_rank() { return threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z); }
  static unsigned num_threads() { return blockDim.x * blockDim.y * blockDim.z; }
  static unsigned size() { return num_threads(); }
  static dim3 group_index() { return blockIdx; }
  static dim3 thread_index() { return threadIdx; }
  static dim3 group_dim() { return blockDim; }
};
static inline thread_block this_thread_block() { return {}; }

template <unsigned Size, class Parent = void>
struct thread_block_tile {
  static_assert(Size <= 32 && (Size & (Size - 1)) == 0, "the emulator has tiles within a warp only");
  static unsigned first() { return kw::lane() & ~(Size - 1); }
  static unsigned mask() { return (Size == 32 ? ~0u : (1u << Size % 32) - 1) << first(); }
  static unsigned thread_rank() { return kw::lane() & (Size - 1); }
  static constexpr unsigned size() { return Size; }
  static constexpr unsigned num_threads() { return Size; }
  static unsigned meta_group_rank() { return thread_block::thread_rank() / Size; }
  static unsigned meta_group_size() { return (thread_block::num_threads() + Size - 1) / Size; }
  static void sync(KW_LINE) { __syncwarp(mask(), line); }
  template <class T> static T shfl(T v, int source, KW_LINE) { return __shfl_sync(mask(), v, source, Size, line); }
  template <class T> static T shfl_up(T v, unsigned d, KW_LINE) { return __shfl_up_sync(mask(), v, d, Size, line); }
  template <class T> static T shfl_down(T v, unsigned d, KW_LINE) { return __shfl_down_sync(mask(), v, d, Size, line); }
  template <class T> static T shfl_xor(T v, int with, KW_LINE) { return __shfl_xor_sync(mask(), v, with, Size, line); }
  static int any(int p, KW_LINE) { return __any_sync(mask(), p, line); }
  static int all(int p, KW_LINE) { return __all_sync(mask(), p, line); }
  static unsigned ballot(int p, KW_LINE) { return __ballot_sync(mask(), p, line) >> first(); }
};
template <unsigned Size, class Parent>
thread_block_tile<Size, Parent> tiled_partition(const Parent&) { return {}; }

template <class T> struct plus { T operator()(T a, T b) const { return a + b; } };
template <class T> struct less { T operator()(T a, T b) const { return b < a ? b : a; } };
template <class T> struct greater { T operator()(T a, T b) const { return a < b ? b : a; } };
template <class Tile, class T, class Operation>
T reduce(const Tile& tile, T value, Operation operation) {
  for (unsigned d = tile.size() / 2; d; d /= 2) value = operation(value, tile.shfl_xor(value, int(d)));
  return value;
}

struct cluster_group {
  static void sync(KW_LINE) {
    if (!kw::machine.geometry.clustered) kw::report("line %d waits for a cluster and the launch has none", line);
    kw::wait(kw::State::cluster, line);
  }
  static unsigned num_blocks() { return kw::machine.cluster_size; }
  static unsigned block_rank() { return kw::current->block->rank; }
  static unsigned num_threads() { return num_blocks() * thread_block::num_threads(); }
  static unsigned thread_rank() { return block_rank() * thread_block::num_threads() + thread_block::thread_rank(); }
  template <class T>
  static T* map_shared_rank(T* p, unsigned rank) {
    if (rank >= num_blocks()) kw::report("a cluster of %u blocks has none of rank %u", num_blocks(), rank);
    return reinterpret_cast<T*>(kw::in_block_of_rank(reinterpret_cast<char*>(p), rank));
  }
};
static inline cluster_group this_cluster() { return {}; }

struct grid_group {
  static bool is_valid() { return kw::machine.geometry.cooperative; }
  static void sync(KW_LINE) {
    if (!is_valid()) kw::report("line %d waits for the grid and the launch is not cooperative", line);
    kw::wait(kw::State::grid, line);
  }
  static unsigned long long num_blocks() { return kw::machine.blocks; }
  static unsigned long long block_rank() { return blockIdx.x + static_cast<unsigned long long>(gridDim.x) * (blockIdx.y + static_cast<unsigned long long>(gridDim.y) * blockIdx.z); }
  static unsigned long long size() { return num_blocks() * thread_block::num_threads(); }
  static unsigned long long num_threads() { return size(); }
  static unsigned long long thread_rank() { return block_rank() * thread_block::num_threads() + thread_block::thread_rank(); }
  static dim3 group_dim() { return gridDim; }
};
static inline grid_group this_grid() { return {}; }

template <class Group> void sync(const Group& group, KW_LINE) { group.sync(line); }

}  // namespace cooperative_groups
