// Sums of three half products by wgmma, with float32's error: rows are scaled by powers of two and split into two halves
// (22 bits). A producer warpgroup splits weights on their way through shared memory; two warpgroups multiply.
#include <cuda_fp16.h>

constexpr int BM = 128 * UNITS;                    // rows of a tile; 64 * UNITS for each multiplying warpgroup
constexpr int A_HALF = BM * 128, A_BYTES = 2 * A_HALF;   // 64 halves a row: the big parts, then the small ones
constexpr int B_HALF = 128 * 128, B_BYTES = 2 * B_HALF;
constexpr int STAGE_BYTES = A_BYTES + B_BYTES;
constexpr int RAW_BYTES = 128 * 64 * 4;
constexpr int MT = (TOKENS + BM - 1) / BM;
constexpr int STEPS1 = (FEATURES + 63) / 64, STEPS2 = (INNER + 63) / 64;
constexpr int PITCH = STEPS2 * 64;                 // of the hidden values

__device__ __forceinline__ void wait_for_launch_before() { asm volatile("griddepcontrol.wait;" ::: "memory"); }
__device__ __forceinline__ void let_next_launch_start() { asm volatile("griddepcontrol.launch_dependents;"); }

__device__ __forceinline__ void barrier_init(const unsigned barrier, const unsigned count) {
  asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(barrier), "r"(count) : "memory");
}
__device__ __forceinline__ void barrier_arrive(const unsigned barrier) {
  asm volatile("mbarrier.arrive.shared.b64 _, [%0];" ::"r"(barrier) : "memory");
}
__device__ __forceinline__ void barrier_expect(const unsigned barrier, const unsigned bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}
__device__ __forceinline__ void barrier_wait(const unsigned barrier, const unsigned phase) {
  asm volatile(
      "{\n.reg .pred done;\nWAIT%=:\nmbarrier.try_wait.parity.shared.b64 done, [%0], %1;\n@!done bra WAIT%=;\n}"
      ::"r"(barrier), "r"(phase) : "memory");
}
__device__ __forceinline__ void copy_bulk(const unsigned to, const void* from, const unsigned bytes, const unsigned barrier) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
               ::"r"(to), "l"(from), "r"(bytes), "r"(barrier) : "memory");
}
template <int Width>
__device__ __forceinline__ void copy_async(float* to, const float* from, const bool inside) {
  const unsigned given = inside ? Width * 4 : 0;
  const unsigned place = static_cast<unsigned>(__cvta_generic_to_shared(to));
  if constexpr (Width == 4)
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(place), "l"(from), "r"(given) : "memory");
  else if constexpr (Width == 2)
    asm volatile("cp.async.ca.shared.global [%0], [%1], 8, %2;" ::"r"(place), "l"(from), "r"(given) : "memory");
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(place), "l"(from), "r"(given) : "memory");
}
__device__ __forceinline__ void close_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int Open>
__device__ __forceinline__ void wait_for_copies() { asm volatile("cp.async.wait_group %0;" ::"n"(Open) : "memory"); }

// The power of two that brings a largest value to 2^8 .. 2^9: its exponent.
__device__ __forceinline__ int scale_for(const float largest) {
  const int e = static_cast<int>(__float_as_uint(largest) >> 23) - 127;
  return min(max(8 - e, -120), 100);
}
__device__ __forceinline__ float power_of_two(const int e) { return __uint_as_float(static_cast<unsigned>(127 + e) << 23); }
__device__ __forceinline__ void parted(const float a, const float b, unsigned& big, unsigned& small) {
  const __half2 first = __floats2half2_rn(a, b);
  const float2 back = __half22float2(first);
  const __half2 rest = __floats2half2_rn(a - back.x, b - back.y);
  big = *reinterpret_cast<const unsigned*>(&first);
  small = *reinterpret_cast<const unsigned*>(&rest);
}
__device__ __forceinline__ float largest_of(const float4 v) {
  return fmaxf(fmaxf(fabsf(v.x), fabsf(v.y)), fmaxf(fabsf(v.z), fabsf(v.w)));
}

// One row a block: scaled, split, and laid out as the tiles' shared memory will hold it (128-byte swizzle).
template <int Depth, int Pitch, int Width>
__device__ __forceinline__ void split_row(
    const float* from, unsigned char* image, float* row_scale) {
  constexpr int STEPS = (Depth + 63) / 64, CHUNKS = STEPS * 8, PER = (CHUNKS + 255) / 256;
  __shared__ float slots[8];
  const int row = blockIdx.x, thread = threadIdx.x;
  float v[PER][8];
  float most = 0.0f;
#pragma unroll
  for (int i = 0; i < PER; ++i) {
    const int k = (i * 256 + thread) * 8;
    const float* const at = from + static_cast<long long>(row) * Pitch + k;
#pragma unroll
    for (int j = 0; j < 8; j += Width) {
      const bool inside = row < TOKENS && k + j < Pitch;
      if constexpr (Width == 4) {
        float4 w = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        if (inside) w = *reinterpret_cast<const float4*>(at + j);
        v[i][j] = w.x, v[i][j + 1] = w.y, v[i][j + 2] = w.z, v[i][j + 3] = w.w;
      } else {
        v[i][j] = inside ? at[j] : 0.0f;
      }
    }
#pragma unroll
    for (int j = 0; j < 8; ++j) most = fmaxf(most, fabsf(v[i][j]));
  }
#pragma unroll
  for (int d = 16; d; d >>= 1) most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, d));
  if (thread % 32 == 0) slots[thread / 32] = most;
  __syncthreads();
#pragma unroll
  for (int i = 0; i < 8; ++i) most = fmaxf(most, slots[i]);
  const int e = scale_for(most);
  const float scale = power_of_two(e);
  if (thread == 0) row_scale[row] = power_of_two(-e);
  const int r = row % BM;
  unsigned char* const tile = image + static_cast<long long>(row / BM) * STEPS * A_BYTES + r * 128;
#pragma unroll
  for (int i = 0; i < PER; ++i) {
    const int chunk = i * 256 + thread;
    if (chunk < CHUNKS) {
      uint4 big, small;
      parted(v[i][0] * scale, v[i][1] * scale, big.x, small.x);
      parted(v[i][2] * scale, v[i][3] * scale, big.y, small.y);
      parted(v[i][4] * scale, v[i][5] * scale, big.z, small.z);
      parted(v[i][6] * scale, v[i][7] * scale, big.w, small.w);
      unsigned char* const to = tile + static_cast<long long>(chunk / 8) * A_BYTES + ((chunk % 8 ^ (r & 7)) << 4);
      *reinterpret_cast<uint4*>(to) = big;
      *reinterpret_cast<uint4*>(to + A_HALF) = small;
    }
  }
}

// 64 x 128 x 16, both operands K-major in shared memory with 128-byte swizzle.
__device__ __forceinline__ unsigned long long described(const unsigned address) {
  return static_cast<unsigned long long>((address & 0x3FFFF) >> 4) | 1ull << 16 | (1024ull >> 4) << 32 | 1ull << 62;
}
__device__ __forceinline__ void multiply(
    float (&c)[64], const unsigned long long a, const unsigned long long b, const int add) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %66, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
      "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
      "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "
      "%64, %65, p, 1, 1, 0, 0;\n}\n"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]), "+f"(c[4]), "+f"(c[5]), "+f"(c[6]), "+f"(c[7]),
        "+f"(c[8]), "+f"(c[9]), "+f"(c[10]), "+f"(c[11]), "+f"(c[12]), "+f"(c[13]), "+f"(c[14]), "+f"(c[15]),
        "+f"(c[16]), "+f"(c[17]), "+f"(c[18]), "+f"(c[19]), "+f"(c[20]), "+f"(c[21]), "+f"(c[22]), "+f"(c[23]),
        "+f"(c[24]), "+f"(c[25]), "+f"(c[26]), "+f"(c[27]), "+f"(c[28]), "+f"(c[29]), "+f"(c[30]), "+f"(c[31]),
        "+f"(c[32]), "+f"(c[33]), "+f"(c[34]), "+f"(c[35]), "+f"(c[36]), "+f"(c[37]), "+f"(c[38]), "+f"(c[39]),
        "+f"(c[40]), "+f"(c[41]), "+f"(c[42]), "+f"(c[43]), "+f"(c[44]), "+f"(c[45]), "+f"(c[46]), "+f"(c[47]),
        "+f"(c[48]), "+f"(c[49]), "+f"(c[50]), "+f"(c[51]), "+f"(c[52]), "+f"(c[53]), "+f"(c[54]), "+f"(c[55]),
        "+f"(c[56]), "+f"(c[57]), "+f"(c[58]), "+f"(c[59]), "+f"(c[60]), "+f"(c[61]), "+f"(c[62]), "+f"(c[63])
      : "l"(a), "l"(b), "r"(add));
}
__device__ __forceinline__ void hold(float (&c)[64]) {
#pragma unroll
  for (int i = 0; i < 64; ++i) asm volatile("" : "+f"(c[i])::"memory");
}

// Blocks that have the same rows share the steps of all their tiles equally. A tile that several of them have a part in
// is put together, in order, by the one that is done last. Fused: 64 columns of gate and the same 64 of up in a tile.
template <bool Fused>
__device__ __forceinline__ void product(
    const unsigned char* image, const float* row_scale, const float* __restrict__ weights0,
    const float* __restrict__ weights1, float* __restrict__ result, float* __restrict__ parts,
    unsigned* __restrict__ came) {
  extern __shared__ __align__(1024) unsigned char room[];
  constexpr int DEPTH = Fused ? FEATURES : INNER, COLS = Fused ? INNER : FEATURES;
  constexpr int WIDTH = Fused ? WIDTH1 : WIDTH2, STEPS = Fused ? STEPS1 : STEPS2, SPAN = Fused ? 64 : 128;
  constexpr int NT = (COLS + SPAN - 1) / SPAN, ALL = NT * STEPS;
  constexpr int BLOCKS = (Fused ? BLOCKS1 : BLOCKS2) / MT;

  const unsigned start = static_cast<unsigned>(__cvta_generic_to_shared(room));
  const unsigned skip = (1024u - (start & 1023u)) & 1023u;
  unsigned char* const base = room + skip;
  const unsigned address = start + skip;
  float* const raw = reinterpret_cast<float*>(base + STAGES * STAGE_BYTES);
  float* const scales = raw + RAW_BYTES / 4;
  const unsigned barriers = address + STAGES * STAGE_BYTES + RAW_BYTES + STAGES * 512;
  volatile int* const flag = reinterpret_cast<volatile int*>(base + STAGES * STAGE_BYTES + RAW_BYTES + STAGES * 512 + 56);
  const auto full = [&](const int stage) { return barriers + 16 * stage; };
  const auto empty = [&](const int stage) { return barriers + 16 * stage + 8; };
  if (threadIdx.x == 0) {
    for (int s = 0; s < STAGES; ++s) barrier_init(full(s), 129), barrier_init(empty(s), 8);
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  }
  __syncthreads();
  let_next_launch_start();
  wait_for_launch_before();

  const int mt = blockIdx.x % MT, block = blockIdx.x / MT;
  const int begin = static_cast<int>(static_cast<long long>(ALL) * block / BLOCKS);
  const int end = static_cast<int>(static_cast<long long>(ALL) * (block + 1) / BLOCKS);
  int stage = 0;
  unsigned phase = 0;
  const int lane = threadIdx.x % 32;

  if (threadIdx.x >= 256) {
    if constexpr (UNITS == 2) asm volatile("setmaxnreg.dec.sync.aligned.u32 56;");
    const int thread = threadIdx.x - 256, warp = thread / 32;
    float* const mine = raw + warp * 2048;
    // Eight rows of 64 at a time, as they lie in memory; a warp reads what it has copied, and nobody else does.
    const auto fetch = [&](const int at, const int group) {
      if (at < end) {
        const int nt = at / STEPS, step = at % STEPS;
        const float* const weights = Fused && warp >= 2 ? weights1 : weights0;
        const int top = nt * SPAN + (Fused ? warp % 2 : warp) * 32 + group * 8;
        float* const to = mine + group * 512;
#pragma unroll
        for (int i = 0; i < 16 / WIDTH; ++i) {
          const int e = (i * 32 + lane) * WIDTH, col = top + e / 64, k = step * 64 + e % 64;
          const bool inside = col < COLS && k < DEPTH;
          copy_async<WIDTH>(to + e, inside ? weights + (static_cast<long long>(col) * DEPTH + k) : weights, inside);
        }
      }
      close_copies();
    };
#pragma unroll
    for (int g = 0; g < 4; ++g) fetch(begin, g);
    for (int at = begin; at < end; ++at) {
      barrier_wait(empty(stage), phase ^ 1);
      if (thread == 0) {
        const unsigned char* const from = image + (static_cast<long long>(mt) * STEPS + at % STEPS) * A_BYTES;
        barrier_expect(full(stage), A_BYTES);
        copy_bulk(address + stage * STAGE_BYTES, from, A_HALF, full(stage));
        copy_bulk(address + stage * STAGE_BYTES + A_HALF, from + A_HALF, A_HALF, full(stage));
      }
      __syncwarp();
      unsigned char* const panel = base + stage * STAGE_BYTES + A_BYTES;
#pragma unroll
      for (int g = 0; g < 4; ++g) {
        wait_for_copies<3>();
        __syncwarp();
        float4 v[2][2];
#pragma unroll
        for (int q = 0; q < 2; ++q) {
          const float* const from = mine + g * 512 + (q * 32 + lane) * 8;
          v[q][0] = *reinterpret_cast<const float4*>(from);
          v[q][1] = *reinterpret_cast<const float4*>(from + 4);
        }
        __syncwarp();
        fetch(at + 1, g);
#pragma unroll
        for (int q = 0; q < 2; ++q) {
          float most = fmaxf(largest_of(v[q][0]), largest_of(v[q][1]));
#pragma unroll
          for (int d = 1; d < 8; d *= 2) most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, d));
          const int e = scale_for(most);
          const float scale = power_of_two(e);
          uint4 big, small;
          parted(v[q][0].x * scale, v[q][0].y * scale, big.x, small.x);
          parted(v[q][0].z * scale, v[q][0].w * scale, big.y, small.y);
          parted(v[q][1].x * scale, v[q][1].y * scale, big.z, small.z);
          parted(v[q][1].z * scale, v[q][1].w * scale, big.w, small.w);
          const int r = q * 4 + lane / 8, c = lane % 8, row = warp * 32 + g * 8 + r;
          unsigned char* const to = panel + row * 128 + ((c ^ r) << 4);
          *reinterpret_cast<uint4*>(to) = big;
          *reinterpret_cast<uint4*>(to + B_HALF) = small;
          if (c == 0) scales[stage * 128 + row] = power_of_two(-e);
        }
      }
      asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
      barrier_arrive(full(stage));
      if (++stage == STAGES) stage = 0, phase ^= 1;
    }
    wait_for_copies<0>();
  } else {
    if constexpr (UNITS == 2) asm volatile("setmaxnreg.inc.sync.aligned.u32 224;");
    const int thread = threadIdx.x, warp = thread / 32, group = warp / 4;
    for (int at = begin; at < end;) {
      const int nt = at / STEPS, from = at % STEPS, count = min(STEPS - from, end - at);
      at += count;
      float sum[UNITS][64], fresh[64];
#pragma unroll
      for (int i = 0; i < 64; ++i) fresh[i] = 0.0f;
#pragma unroll
      for (int u = 0; u < UNITS; ++u)
#pragma unroll
        for (int i = 0; i < 64; ++i) sum[u][i] = 0.0f;
      for (int step = 0; step < count; ++step) {
        barrier_wait(full(stage), phase);
        const unsigned here = address + stage * STAGE_BYTES;
        const unsigned long long b = described(here + A_BYTES);
        const float* const factors = scales + stage * 128 + lane % 4 * 2;
#pragma unroll
        for (int u = 0; u < UNITS; ++u) {
          const unsigned long long a = described(here + (group * UNITS + u) * 8192);
          hold(fresh);
          asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
          // The tensor cores round sums towards zero: what is small comes first, and each step starts from nothing.
#pragma unroll
          for (int k = 0; k < 4; ++k) {
            multiply(fresh, a + (A_HALF >> 4) + 2 * k, b + 2 * k, k > 0);
            multiply(fresh, a + 2 * k, b + (B_HALF >> 4) + 2 * k, 1);
          }
#pragma unroll
          for (int k = 0; k < 4; ++k) multiply(fresh, a + 2 * k, b + 2 * k, 1);
          asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
          asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
          hold(fresh);
#pragma unroll
          for (int j = 0; j < 16; ++j) {
            const float2 f = *reinterpret_cast<const float2*>(factors + 8 * j);
            sum[u][4 * j] = fmaf(fresh[4 * j], f.x, sum[u][4 * j]);
            sum[u][4 * j + 1] = fmaf(fresh[4 * j + 1], f.y, sum[u][4 * j + 1]);
            sum[u][4 * j + 2] = fmaf(fresh[4 * j + 2], f.x, sum[u][4 * j + 2]);
            sum[u][4 * j + 3] = fmaf(fresh[4 * j + 3], f.y, sum[u][4 * j + 3]);
          }
        }
        __syncwarp();
        if (lane == 0) barrier_arrive(empty(stage));
        if (++stage == STAGES) stage = 0, phase ^= 1;
      }
      if (count < STEPS) {
        const int first = nt * STEPS;
        const auto owner = [&](const int step) {
          return static_cast<int>((static_cast<long long>(step + 1) * BLOCKS - 1) / ALL);
        };
        const int one = owner(first), other = owner(first + STEPS - 1);
        const auto part = [&](const int of) {  // a block leaves at most two tiles unfinished: its first and its last
          const int slot = static_cast<int>(static_cast<long long>(ALL) * of / BLOCKS) > first ? 0 : 1;
          return parts + (2ll * (of * MT + mt) + slot) * (BM * 128) + 4 * thread;
        };
        float* const own = part(block);
#pragma unroll
        for (int u = 0; u < UNITS; ++u)
#pragma unroll
          for (int i = 0; i < 64; i += 4)
            *reinterpret_cast<float4*>(own + (u * 64 + i) * 256) =
                make_float4(sum[u][i], sum[u][i + 1], sum[u][i + 2], sum[u][i + 3]);
        __threadfence();
        asm volatile("bar.sync 1, 256;" ::: "memory");
        unsigned* const arrived = came + mt * NT + nt;
        if (thread == 0) *flag = atomicAdd(arrived, 1u) == static_cast<unsigned>(other - one);
        asm volatile("bar.sync 1, 256;" ::: "memory");
        if (!*flag) continue;
        if (thread == 0) *arrived = 0;
        __threadfence();
#pragma unroll
        for (int u = 0; u < UNITS; ++u)
#pragma unroll
          for (int i = 0; i < 64; ++i) sum[u][i] = 0.0f;
        for (int of = one; of <= other; ++of) {
          const float* const theirs = part(of);
#pragma unroll
          for (int u = 0; u < UNITS; ++u)
#pragma unroll
            for (int i = 0; i < 64; i += 4) {
              const float4 v = __ldcg(reinterpret_cast<const float4*>(theirs + (u * 64 + i) * 256));
              sum[u][i] += v.x, sum[u][i + 1] += v.y, sum[u][i + 2] += v.z, sum[u][i + 3] += v.w;
            }
        }
      }
#pragma unroll
      for (int u = 0; u < UNITS; ++u)
#pragma unroll
        for (int h = 0; h < 2; ++h) {
          const int row = mt * BM + (group * UNITS + u) * 64 + warp % 4 * 16 + h * 8 + lane / 4;
          if (row < TOKENS) {
            const float factor = __ldcg(row_scale + row);
            if constexpr (Fused) {
              float* const to = result + static_cast<long long>(row) * PITCH + nt * 64 + lane % 4 * 2;
#pragma unroll
              for (int j = 0; j < 8; ++j) {
                float2 v;
                const float g0 = sum[u][4 * j + 2 * h] * factor, g1 = sum[u][4 * j + 2 * h + 1] * factor;
                v.x = g0 / (1.0f + expf(-g0)) * (sum[u][4 * j + 32 + 2 * h] * factor);
                v.y = g1 / (1.0f + expf(-g1)) * (sum[u][4 * j + 33 + 2 * h] * factor);
                *reinterpret_cast<float2*>(to + 8 * j) = v;
              }
            } else {
#pragma unroll
              for (int j = 0; j < 16; ++j) {
                const int col = nt * 128 + 8 * j + lane % 4 * 2;
                float* const to = result + static_cast<long long>(row) * FEATURES + col;
                const float v0 = sum[u][4 * j + 2 * h] * factor, v1 = sum[u][4 * j + 2 * h + 1] * factor;
                if constexpr (FEATURES % 2 == 0) {
                  if (col < FEATURES) *reinterpret_cast<float2*>(to) = make_float2(v0, v1);
                } else {
                  if (col < FEATURES) to[0] = v0;
                  if (col + 1 < FEATURES) to[1] = v1;
                }
              }
            }
          }
        }
    }
  }
}

extern "C" __global__ void __launch_bounds__(256) split_x(
    const float* __restrict__ x, unsigned char* __restrict__ image, float* __restrict__ row_scale) {
  let_next_launch_start();
  split_row<FEATURES, FEATURES, (FEATURES % 4 == 0 ? 4 : 1)>(x, image, row_scale);
}
extern "C" __global__ void __launch_bounds__(256) split_hidden(
    const float* hidden, unsigned char* image, float* row_scale) {
  let_next_launch_start();
  wait_for_launch_before();
  split_row<INNER, PITCH, 4>(hidden, image, row_scale);
}
extern "C" __global__ void __launch_bounds__(384, 1) gate_and_up(
    const unsigned char* image, const float* row_scale, const float* __restrict__ gate,
    const float* __restrict__ up, float* __restrict__ hidden, float* __restrict__ parts, unsigned* __restrict__ came) {
  product<true>(image, row_scale, gate, up, hidden, parts, came);
}
extern "C" __global__ void __launch_bounds__(384, 1) down_again(
    const unsigned char* image, const float* row_scale, const float* __restrict__ down,
    float* __restrict__ out, float* __restrict__ parts, unsigned* __restrict__ came) {
  product<false>(image, row_scale, down, down, out, parts, came);
}









































