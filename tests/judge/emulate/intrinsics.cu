// Every thread looks whether intrinsics give what CUDA's guide says, and doubles its element only if they do.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
namespace cg = cooperative_groups;

#define EXPECT(condition) \
  if (!(condition)) wrong = __LINE__

__constant__ float table[4] = {1.f, 2.f, 3.f, 4.f};
extern __shared__ __align__(16) unsigned char bytes[];

template <class T>
__device__ __forceinline__ T twice(T v) {
  __shared__ T place[64];
  place[threadIdx.x] = v;
  __syncthreads();
  T other = place[63 - threadIdx.x];
  __syncthreads();
  place[threadIdx.x] = other;
  __syncthreads();
  T mine = place[63 - threadIdx.x];
  __syncthreads();
  return mine * T(2);
}

template <int Scale>
__global__ void __launch_bounds__(64) check(const float* __restrict__ x, float* __restrict__ out, int n, unsigned* zeros) {
  int wrong = 0, lane = threadIdx.x % 32;
  const unsigned all = 0xffffffffu;
  EXPECT(__shfl_sync(all, lane, 5) == 5);
  EXPECT(__shfl_sync(all, lane, 5, 8) == (lane & ~7) + 5);
  EXPECT(__shfl_up_sync(all, lane, 3) == (lane < 3 ? lane : lane - 3));
  EXPECT(__shfl_down_sync(all, lane, 3) == (lane > 28 ? lane : lane + 3));
  EXPECT(__shfl_down_sync(all, lane, 3, 16) == (lane % 16 > 12 ? lane : lane + 3));
  EXPECT(__shfl_xor_sync(all, 1.5 * lane, 9) == 1.5 * (lane ^ 9));
  EXPECT(__shfl_xor_sync(all, (long long)lane << 40, 16) == (long long)(lane ^ 16) << 40);
  EXPECT(__ballot_sync(all, lane % 3 == 0) == 0x49249249u);
  EXPECT(__any_sync(all, lane == 31) && !__all_sync(all, lane != 31) && __all_sync(all, 1));
  EXPECT(__match_any_sync(all, lane / 8) == 0xffu << lane / 8 * 8);
  int same;
  EXPECT(__match_all_sync(all, lane, &same) == 0 && same == 0);
  EXPECT(__reduce_add_sync(all, lane) == 496 && __reduce_min_sync(all, lane - 7) == -7);
  EXPECT(__reduce_max_sync(all, (unsigned)lane) == 31u);
  if (lane < 16) {
    EXPECT(__shfl_xor_sync(0xffffu, lane, 1) == (lane ^ 1));
    __syncwarp(0xffffu);
  }
  __syncwarp();
  EXPECT(__syncthreads_count(lane == 0) == 2);
  EXPECT(__syncthreads_and(1) && !__syncthreads_and(lane) && __syncthreads_or(threadIdx.x == 40));

  auto tile = cg::tiled_partition<8>(cg::this_thread_block());
  EXPECT(cg::reduce(tile, lane, cg::plus<int>()) == 8 * (lane & ~7) + 28);
  EXPECT(tile.shfl(lane, 2) == (lane & ~7) + 2 && tile.thread_rank() == lane % 8u && tile.meta_group_rank() == threadIdx.x / 8);
  EXPECT(tile.ballot(tile.thread_rank() == 1) == 2u);

  EXPECT(max(3, 4u) == 4 && min(-1.5f, 2.f) == -1.5f && max(1.f, __int_as_float(0x7fc00000)) == 1.f);
  EXPECT(__float_as_int(1.f) == 0x3f800000 && __clz(1) == 31 && __popc(7u) == 3 && __ffs(8) == 4 && __brev(1u) == 1u << 31);
  EXPECT(fabsf(rsqrtf(4.f) - 0.5f) < 1e-6f && fabsf(__expf(0.f) - 1.f) < 1e-6f && __fdividef(6.f, 3.f) == 2.f);
  EXPECT(__saturatef(2.f) == 1.f && __umulhi(1u << 31, 4u) == 2u && __float2int_rn(2.5f) == 2);
  EXPECT(__half2float(__float2half(1.f / 3.f)) == 0.333251953125f && float(__hadd(__half(1.f), __half(2.f))) == 3.f);
  EXPECT(__bfloat162float(__float2bfloat16(1.f / 3.f)) == 0.333984375f);
  float2 pair = __half22float2(__floats2half2_rn(1.f, 2.f));
  EXPECT(pair.x == 1.f && pair.y == 2.f && sizeof(float4) == 16 && alignof(int4) == 16 && alignof(double2) == 16);
  float4* vectors = reinterpret_cast<float4*>(bytes);
  vectors[threadIdx.x] = make_float4(table[0], table[1], table[2], table[3]);
  __syncthreads();
  EXPECT(__ldg(&vectors[63 - threadIdx.x]).w == 4.f);

  EXPECT(atomicCAS(zeros + 1 + threadIdx.x, 0u, 7u) == 0u && atomicExch(zeros + 1 + threadIdx.x, 0u) == 7u);
  atomicMax(zeros, 5u);
  __syncthreads();
  EXPECT(*zeros == 5u);
  __syncthreads();
  atomicAnd(zeros, 0u);
  for (int i = threadIdx.x; i - (int)threadIdx.x < n; i += 64) {
    float v = twice<float>(i < n ? x[i] : 0.f);
    if (i < n) __stcs(out + i, wrong ? 1000.f * Scale + wrong : v);
  }
}

/* plan.py
import kw


def plan(x, out):
    zeros = kw.workspace("zeros", 4 * 65)
    return kw.plan(kw.launch("check<1000>", 1, 64, x, out, kw.i32(x.numel()), zeros, shared=1024))
*/
