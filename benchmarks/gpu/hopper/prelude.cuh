// What the kernels of this folder share: barriers in shared memory, and copies that the hardware makes.
#include <cuda.h>
#include <cuda_bf16.h>

typedef unsigned u32;
typedef unsigned long long u64;

__device__ __forceinline__ u32 in_shared(const void* p) { return static_cast<u32>(__cvta_generic_to_shared(p)); }
__device__ __forceinline__ void init(u64& barrier, u32 count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(in_shared(&barrier)), "r"(count) : "memory");
}
// Barriers that were made are there for the copies, and for other blocks of a cluster.
__device__ __forceinline__ void show_barriers() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  asm volatile("fence.proxy.async;" ::: "memory");
}
__device__ __forceinline__ void expect(u64& barrier, u32 bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(in_shared(&barrier)), "r"(bytes) : "memory");
}
__device__ __forceinline__ void arrive(u64& barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(in_shared(&barrier)) : "memory");
}
__device__ __forceinline__ void wait(u64& barrier, u32 parity) {
  asm volatile(
      "{\n.reg .pred done;\nWAIT:\nmbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n@!done bra WAIT;\n}" ::"r"(
          in_shared(&barrier)),
      "r"(parity)
      : "memory");
}
__device__ __forceinline__ void load_bulk(void* to, const void* from, u32 bytes, u64& barrier) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(in_shared(to)),
               "l"(from), "r"(bytes), "r"(in_shared(&barrier))
               : "memory");
}
__device__ __forceinline__ void load_box(void* to, const CUtensorMap& map, int x, int y, u64& barrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(
          in_shared(to)),
      "l"(&map), "r"(x), "r"(y), "r"(in_shared(&barrier))
      : "memory");
}
// What threads stored in shared memory is there for the copies; a barrier follows.
__device__ __forceinline__ void show_stores() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
// Waits until all copies that this thread began are done, writes included.
__device__ __forceinline__ void end_stores() {
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
  asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}
