// Weights are the left operand of wgmma, straight from registers: each float is scaled by a power of two (per row and
// 64 of the depth) and parted into two halves, 22 bits in all; three fp16 products give float32's precision.
// Tokens (x, then silu(gate) * up) lie in scratch as images of shared memory, so that bulk copies of any size are aligned.
#include <cuda_fp16.h>

constexpr int COUNT = FFW_COUNT, FEATURES = FFW_FEATURES, INNER = FFW_INNER;
constexpr int PART = FFW_PART, PARTS = FFW_PARTS, TILE = PART * PARTS;  // a block has TILE tokens, PART at a time
constexpr int TILES = FFW_TILES, GROUPS = FFW_GROUPS, STAGES = FFW_STAGES;
constexpr int DEEP = 64, ROWS = 128, PITCH = DEEP + 4, WORKERS = 256;
constexpr int IMAGE = TILE * DEEP;  // halves; two images for a step: the large parts, then the small ones
constexpr int STEPS_1 = (FEATURES + DEEP - 1) / DEEP, STEPS_2 = (INNER + DEEP - 1) / DEEP;
constexpr int DOWN_1 = STEPS_2, DOWN_2 = (FEATURES + ROWS - 1) / ROWS;  // tiles of rows; 64 of gate and 64 of up in one
constexpr int EIGHTS = TILE / 8;
constexpr int A_BYTES = ROWS * PITCH * 4, B_BYTES = IMAGE * 4;
static_assert(TILE * TILES >= COUNT && TILE <= 256, "tiles hold all tokens");
static_assert(PART % 8 == 0 && PART >= 40 && PART <= 64, "products that are written out below");

__device__ __forceinline__ void wait_for_launch_before() { asm volatile("griddepcontrol.wait;" ::: "memory"); }
__device__ __forceinline__ void let_next_launch_start() { asm volatile("griddepcontrol.launch_dependents;"); }
__device__ __forceinline__ void fence_proxies() { asm volatile("fence.proxy.async;" ::: "memory"); }

__device__ __forceinline__ unsigned place_of(const void* p) {
  return static_cast<unsigned>(__cvta_generic_to_shared(p));
}
__device__ __forceinline__ void barrier_init(const unsigned barrier, const unsigned count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(count) : "memory");
}
__device__ __forceinline__ void barrier_expect(const unsigned barrier, const unsigned bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}
__device__ __forceinline__ void barrier_arrive(const unsigned barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}
__device__ __forceinline__ void barrier_wait(const unsigned barrier, const unsigned phase) {
  unsigned done;
  do {
    asm volatile(
        "{\n.reg .pred p;\nmbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\nselp.u32 %0, 1, 0, p;\n}"
        : "=r"(done) : "r"(barrier), "r"(phase) : "memory");
  } while (!done);
}
// Both addresses and the size are multiples of 16 bytes.
__device__ __forceinline__ void bulk_copy(
    const unsigned to, const void* from, const unsigned bytes, const unsigned barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
      "l"(__cvta_generic_to_global(from)), "r"(bytes), "r"(barrier) : "memory");
}

// What the launch before wrote; volatile, so that it stays behind the wait for that launch.
__device__ __forceinline__ float fetched(const float* from) {
  float v;
  asm volatile("ld.global.cg.f32 %0, [%1];" : "=f"(v) : "l"(__cvta_generic_to_global(from)));
  return v;
}
__device__ __forceinline__ float4 fetched(const float4* from) {
  float4 v;
  asm volatile("ld.global.cg.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w) : "l"(__cvta_generic_to_global(from)));
  return v;
}

// The power of two that brings what is at most `most` below 2^15, and its inverse.
__device__ __forceinline__ void scales(const float most, float& there, float& back) {
  const int exponent = max(static_cast<int>(__float_as_uint(most) >> 23), 32);
  there = __uint_as_float(static_cast<unsigned>(268 - exponent) << 23);
  back = __uint_as_float(static_cast<unsigned>(exponent - 14) << 23);
}

// Two floats as two halves each: what remains of a float after both is 2^-24 of it at most.
__device__ __forceinline__ void parted(const float low, const float high, unsigned& big, unsigned& small) {
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(big) : "f"(high), "f"(low));
  float big_low, big_high;
  asm("{\n.reg .f16 l, h;\nmov.b32 {l, h}, %2;\ncvt.f32.f16 %0, l;\ncvt.f32.f16 %1, h;\n}"
      : "=f"(big_low), "=f"(big_high) : "r"(big));
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(small) : "f"(high - big_high), "f"(low - big_low));
}

// Where an element of the depth (0 to 63) of a token lies in an image: swizzled for wgmma, and in eights in the order
// 0 4 1 5 2 6 3 7, so that the four lanes that share a row of weights read neighbours.
__device__ __forceinline__ int place_in_image(const int token, const int k) {
  return token * DEEP + ((k / 8) ^ (token & 7)) * 8 + ((k & 3) << 1 | (k >> 2 & 1));
}

// The largest of 512 threads.
__device__ __forceinline__ float most_of_block(float v, float* const seen) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int d = 16; d; d /= 2) v = fmaxf(v, __shfl_xor_sync(0xffffffffu, v, d));
  if (lane == 0) seen[threadIdx.x / 32] = v;
  __syncthreads();
  v = seen[lane % 16];
#pragma unroll
  for (int d = 8; d; d /= 2) v = fmaxf(v, __shfl_xor_sync(0xffffffffu, v, d));
  return v;
}

// D (64 x N) = A (64 x 16, registers) * B (N x 16, shared memory) + D, or without D.
template <int N>
__device__ __forceinline__ void multiply(
    float (&c)[N / 2], const unsigned (&a)[4], const unsigned long long b, const int add);
template <>
__device__ __forceinline__ void multiply<40>(
    float (&c)[20], const unsigned (&a)[4], const unsigned long long b, const int add) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %25, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n40k16.f32.f16.f16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19}, "
      "{%20, %21, %22, %23}, %24, p, 1, 1, 0;\n}"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]), "+f"(c[4]), "+f"(c[5]), "+f"(c[6]), "+f"(c[7]),
        "+f"(c[8]), "+f"(c[9]), "+f"(c[10]), "+f"(c[11]), "+f"(c[12]), "+f"(c[13]), "+f"(c[14]), "+f"(c[15]),
        "+f"(c[16]), "+f"(c[17]), "+f"(c[18]), "+f"(c[19])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(add));
}
template <>
__device__ __forceinline__ void multiply<48>(
    float (&c)[24], const unsigned (&a)[4], const unsigned long long b, const int add) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %29, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n48k16.f32.f16.f16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23}, "
      "{%24, %25, %26, %27}, %28, p, 1, 1, 0;\n}"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]), "+f"(c[4]), "+f"(c[5]), "+f"(c[6]), "+f"(c[7]),
        "+f"(c[8]), "+f"(c[9]), "+f"(c[10]), "+f"(c[11]), "+f"(c[12]), "+f"(c[13]), "+f"(c[14]), "+f"(c[15]),
        "+f"(c[16]), "+f"(c[17]), "+f"(c[18]), "+f"(c[19]), "+f"(c[20]), "+f"(c[21]), "+f"(c[22]), "+f"(c[23])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(add));
}
template <>
__device__ __forceinline__ void multiply<56>(
    float (&c)[28], const unsigned (&a)[4], const unsigned long long b, const int add) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %33, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n56k16.f32.f16.f16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27}, "
      "{%28, %29, %30, %31}, %32, p, 1, 1, 0;\n}"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]), "+f"(c[4]), "+f"(c[5]), "+f"(c[6]), "+f"(c[7]),
        "+f"(c[8]), "+f"(c[9]), "+f"(c[10]), "+f"(c[11]), "+f"(c[12]), "+f"(c[13]), "+f"(c[14]), "+f"(c[15]),
        "+f"(c[16]), "+f"(c[17]), "+f"(c[18]), "+f"(c[19]), "+f"(c[20]), "+f"(c[21]), "+f"(c[22]), "+f"(c[23]),
        "+f"(c[24]), "+f"(c[25]), "+f"(c[26]), "+f"(c[27])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(add));
}
template <>
__device__ __forceinline__ void multiply<64>(
    float (&c)[32], const unsigned (&a)[4], const unsigned long long b, const int add) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %37, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "
      "{%32, %33, %34, %35}, %36, p, 1, 1, 0;\n}"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]), "+f"(c[4]), "+f"(c[5]), "+f"(c[6]), "+f"(c[7]),
        "+f"(c[8]), "+f"(c[9]), "+f"(c[10]), "+f"(c[11]), "+f"(c[12]), "+f"(c[13]), "+f"(c[14]), "+f"(c[15]),
        "+f"(c[16]), "+f"(c[17]), "+f"(c[18]), "+f"(c[19]), "+f"(c[20]), "+f"(c[21]), "+f"(c[22]), "+f"(c[23]),
        "+f"(c[24]), "+f"(c[25]), "+f"(c[26]), "+f"(c[27]), "+f"(c[28]), "+f"(c[29]), "+f"(c[30]), "+f"(c[31])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(add));
}

// Images of x: a block has the tokens of a tile, 64 of the depth.
extern "C" __global__ void __launch_bounds__(512) split_x(
    const float* __restrict__ x, __half* __restrict__ images, float* __restrict__ factors) {
  __shared__ float seen[16];
  let_next_launch_start();
  constexpr int EACH = (TILE + 15) / 16;
  const int tile = blockIdx.x / STEPS_1, step = blockIdx.x % STEPS_1;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  float v[EACH][2];
  float most = 0.0f;
#pragma unroll
  for (int i = 0; i < EACH; ++i) {
    const int within = warp + 16 * i, token = tile * TILE + within;
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      const int k = step * DEEP + lane + 32 * e;
      v[i][e] = within < TILE && token < COUNT && k < FEATURES ? x[static_cast<long long>(token) * FEATURES + k] : 0.0f;
      most = fmaxf(most, fabsf(v[i][e]));
    }
  }
  most = most_of_block(most, seen);
  float there, back;
  scales(most, there, back);
  if (threadIdx.x == 0) factors[blockIdx.x] = back;
  __half* const to = images + static_cast<long long>(blockIdx.x) * (2 * IMAGE);
#pragma unroll
  for (int i = 0; i < EACH; ++i) {
    const int within = warp + 16 * i;
    if (within < TILE) {
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        const float scaled = v[i][e] * there;
        const __half big = __float2half_rn(scaled);
        const int at = place_in_image(within, lane + 32 * e);
        to[at] = big;
        to[IMAGE + at] = __float2half_rn(scaled - __half2float(big));
      }
    }
  }
  fence_proxies();
}

// Groups of blocks, one block for each tile of tokens, go over all steps of all tiles of rows in equal shares. What a
// block has of a tile goes to a slot of its own; the next launch adds up the slots of a tile, in order.
template <int DOWN, int STEPS>
struct Shares {
  static constexpr int UNITS = DOWN, ALL = UNITS * STEPS;
  static_assert(GROUPS <= ALL, "every group has a step");
  static __device__ __forceinline__ int begin(const int group) {
    return static_cast<int>(static_cast<long long>(ALL) * group / GROUPS);
  }
  static __device__ __forceinline__ int owner(const int step) {
    return static_cast<int>((static_cast<long long>(step + 1) * GROUPS - 1) / ALL);
  }
  // In floats, of what `group` has of a tile of rows and of tokens.
  static __device__ __forceinline__ long long slot(const int down, const int group, const int tile) {
    return (static_cast<long long>(down + group) * TILES + tile) * (ROWS * TILE);
  }
  static __device__ __forceinline__ int unit_of(const int down) {
    return down;
  }
};

// Rows of weights times tokens. `Pair`: 64 rows of each of two matrices, so that a thread has both for the same elements;
// else 128 rows of one. Warp 8 copies, two warpgroups multiply.
template <int K, int LIMIT, int DOWN, int STEPS, bool Pair>
__device__ __forceinline__ void products(
    const float* __restrict__ one, const float* __restrict__ other, const __half* __restrict__ images,
    const float* __restrict__ factors, float* __restrict__ slots) {
  using Share = Shares<DOWN, STEPS>;
  extern __shared__ __align__(1024) unsigned char memory[];
  const unsigned start = place_of(memory), base = (start + 1023u) & ~1023u;
  const unsigned b_at = base, a_at = base + STAGES * B_BYTES, barriers = a_at + STAGES * A_BYTES;
  float* const a_room = reinterpret_cast<float*>(memory + (base - start) + STAGES * B_BYTES);
  const unsigned a_full = barriers, a_empty = a_full + 8 * STAGES, b_full = a_empty + 8 * STAGES,
                 b_empty = b_full + 8 * STAGES;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int group = blockIdx.x / TILES, tile = blockIdx.x % TILES;
  const int end = Share::begin(group + 1);
  let_next_launch_start();
  if (threadIdx.x == 0) {
    for (int s = 0; s < STAGES; ++s) {
      barrier_init(a_full + 8 * s, 32);
      barrier_init(a_empty + 8 * s, WORKERS / 32);
      barrier_init(b_full + 8 * s, 1);
      barrier_init(b_empty + 8 * s, WORKERS / 32);
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  // What lies beyond the depth meets zeros among the tokens, so it only has to be finite.
  for (int i = threadIdx.x; i < STAGES * A_BYTES / 16; i += WORKERS + 32)
    reinterpret_cast<float4*>(a_room)[i] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
  fence_proxies();
  __syncthreads();

  if (warp == WORKERS / 32) {
    int turn = 0;
    for (int at = Share::begin(group); at < end;) {
      const int unit = at / STEPS, from = at % STEPS, to = from + min(STEPS - from, end - at);
      at += to - from;
      const int first = unit * (Pair ? 64 : 128);
      // Rows begin at any float: copies begin up to three floats before them, at a multiple of 16 bytes.
      const float* rows[4];
      int lead[4];
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const int line = lane + 32 * j;
        const int row = min(first + (Pair ? line % 64 : line), LIMIT - 1);
        const long long offset = static_cast<long long>(row) * K;
        lead[j] = static_cast<int>(offset & 3);
        rows[j] = (Pair && j >= 2 ? other : one) + (offset - lead[j]);
      }
      for (int step = from; step < to; ++step, ++turn) {
        const int stage = turn % STAGES;
        const unsigned phase = turn / STAGES & 1;
        const int have = min(DEEP, K - step * DEEP);
        unsigned bytes[4], total = 0;
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          bytes[j] = static_cast<unsigned>((lead[j] + have + 3) / 4 * 16);
          total += bytes[j];
        }
        barrier_wait(a_empty + 8 * stage, phase ^ 1);
        barrier_expect(a_full + 8 * stage, total);
#pragma unroll
        for (int j = 0; j < 4; ++j)
          bulk_copy(
              a_at + stage * A_BYTES + (lane + 32 * j) * (PITCH * 4), rows[j] + step * DEEP, bytes[j],
              a_full + 8 * stage);
        if (turn == 0) {
          wait_for_launch_before();
          fence_proxies();
        }
        barrier_wait(b_empty + 8 * stage, phase ^ 1);
        if (lane == 0) barrier_expect(b_full + 8 * stage, B_BYTES);
        __syncwarp();
        const char* const image =
            reinterpret_cast<const char*>(images) + static_cast<long long>(tile * STEPS + step) * B_BYTES;
        constexpr int PIECE = B_BYTES / 8;
        if (lane < 8)
          bulk_copy(b_at + stage * B_BYTES + lane * PIECE, image + lane * PIECE, PIECE, b_full + 8 * stage);
        __syncwarp();
      }
    }
  } else {
    wait_for_launch_before();
    const int g = lane / 4, t = lane % 4;
    const int line_0 = Pair ? warp * 8 + g : warp * 16 + g, line_1 = line_0 + (Pair ? 64 : 8);
    float fresh[PART / 2];
#pragma unroll
    for (int i = 0; i < PART / 2; ++i) fresh[i] = 0.0f;
    int turn = 0;
    for (int at = Share::begin(group); at < end;) {
      const int unit = at / STEPS, from = at % STEPS, to = from + min(STEPS - from, end - at);
      at += to - from;
      const int down = unit;
      const int first = down * (Pair ? 64 : 128);
      const int row_0 = min(first + line_0, LIMIT - 1), row_1 = Pair ? row_0 : min(first + line_1, LIMIT - 1);
      const int at_0 = line_0 * PITCH + (row_0 * K & 3) + t, at_1 = line_1 * PITCH + (row_1 * K & 3) + t;
      float sum[PARTS][PART / 2];
#pragma unroll
      for (int q = 0; q < PARTS; ++q)
#pragma unroll
        for (int i = 0; i < PART / 2; ++i) sum[q][i] = 0.0f;

#pragma unroll 1
      for (int step = from; step < to; ++step, ++turn) {
        const int stage = turn % STAGES;
        const unsigned phase = turn / STAGES & 1;
        const float factor = fetched(factors + tile * STEPS + step);
        const float* const a = a_room + stage * (ROWS * PITCH);
        float v_0[16], v_1[16];
        barrier_wait(a_full + 8 * stage, phase);
#pragma unroll
        for (int i = 0; i < 16; ++i) v_0[i] = a[at_0 + 4 * i], v_1[i] = a[at_1 + 4 * i];
        float most_0 = 0.0f, most_1 = 0.0f;
#pragma unroll
        for (int i = 0; i < 16; ++i) most_0 = fmaxf(most_0, fabsf(v_0[i])), most_1 = fmaxf(most_1, fabsf(v_1[i]));
        __syncwarp();
        if (lane == 0) barrier_arrive(a_empty + 8 * stage);
#pragma unroll
        for (int d = 1; d < 4; d *= 2) {
          most_0 = fmaxf(most_0, __shfl_xor_sync(0xffffffffu, most_0, d));
          most_1 = fmaxf(most_1, __shfl_xor_sync(0xffffffffu, most_1, d));
        }
        float there_0, back_0, there_1, back_1;
        scales(most_0, there_0, back_0);
        scales(most_1, there_1, back_1);
        back_0 *= factor;
        back_1 *= factor;
        unsigned big[4][4], small[4][4];
#pragma unroll
        for (int s = 0; s < 4; ++s)
#pragma unroll
          for (int h = 0; h < 2; ++h) {
            const int i = 4 * s + 2 * h;
            parted(v_0[i] * there_0, v_0[i + 1] * there_0, big[s][2 * h], small[s][2 * h]);
            parted(v_1[i] * there_1, v_1[i + 1] * there_1, big[s][2 * h + 1], small[s][2 * h + 1]);
          }

        barrier_wait(b_full + 8 * stage, phase);
        __syncwarp();
        // Lines of 128 bytes with 128-byte swizzle, 1024 bytes for eight of them.
        const unsigned long long tokens =
            static_cast<unsigned long long>((b_at + stage * B_BYTES) >> 4) | 1ull << 16 | 64ull << 32 | 1ull << 62;
#pragma unroll
        for (int q = 0; q < PARTS; ++q) {
          const unsigned long long big_b = tokens + q * (PART * 8), small_b = big_b + TILE * 8;
#pragma unroll
          for (int i = 0; i < PART / 2; ++i) asm volatile("" : "+f"(fresh[i])::"memory");
          asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
          for (int s = 0; s < 4; ++s) multiply<PART>(fresh, small[s], big_b + 2 * s, s > 0);
#pragma unroll
          for (int s = 0; s < 4; ++s) multiply<PART>(fresh, big[s], small_b + 2 * s, 1);
#pragma unroll
          for (int s = 0; s < 4; ++s) multiply<PART>(fresh, big[s], big_b + 2 * s, 1);
          asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
          asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
#pragma unroll
          for (int i = 0; i < PART / 2; ++i) asm volatile("" : "+f"(fresh[i])::"memory");
          // Tensor cores round towards zero, so that the float units add the steps up.
#pragma unroll
          for (int i = 0; i < PART / 2; ++i) {
            sum[q][i] = fmaf(fresh[i], i % 4 < 2 ? back_0 : back_1, sum[q][i]);
            asm volatile("" : "+f"(sum[q][i]));
          }
        }
        __syncwarp();
        if (lane == 0) barrier_arrive(b_empty + 8 * stage);
      }

      float4* const mine = reinterpret_cast<float4*>(slots + Share::slot(down, group, tile)) + threadIdx.x;
#pragma unroll
      for (int q = 0; q < PARTS; ++q)
#pragma unroll
        for (int j = 0; j < PART / 8; ++j)
          mine[(q * (PART / 8) + j) * WORKERS] =
              make_float4(sum[q][4 * j], sum[q][4 * j + 1], sum[q][4 * j + 2], sum[q][4 * j + 3]);
    }
  }
}

extern "C" __global__ void __launch_bounds__(288, 1) gemm_up(
    const float* __restrict__ gate, const float* __restrict__ up, const __half* __restrict__ images,
    const float* __restrict__ factors, float* __restrict__ slots) {
  products<FEATURES, INNER, DOWN_1, STEPS_1, true>(gate, up, images, factors, slots);
}
extern "C" __global__ void __launch_bounds__(288, 1) gemm_down(
    const float* __restrict__ down, const __half* __restrict__ images, const float* __restrict__ factors,
    float* __restrict__ slots) {
  products<INNER, FEATURES, DOWN_2, STEPS_2, false>(down, down, images, factors, slots);
}

// Adds up the slots of 64 rows of gate and of up, and makes the images of silu(gate) * up.
extern "C" __global__ void __launch_bounds__(512) join_up(
    const float* __restrict__ slots, __half* __restrict__ images, float* __restrict__ factors) {
  extern __shared__ __align__(1024) unsigned char memory[];
  __shared__ float seen[16];
  using Share = Shares<DOWN_1, STEPS_1>;
  constexpr int EACH = (EIGHTS + 1) / 2, AHEAD = 4;
  __half* const image = reinterpret_cast<__half*>(memory);
  let_next_launch_start();
  const int down = blockIdx.x / TILES, tile = blockIdx.x % TILES;
  const int id = threadIdx.x % WORKERS, side = threadIdx.x / WORKERS;
  const int warp = id / 32, lane = id % 32, g = lane / 4, t = lane % 4;
  const bool inside = down * DEEP + warp * 8 + g < INNER;
  const int begin = Share::unit_of(down) * STEPS_1;
  const int one = Share::owner(begin), other = Share::owner(begin + STEPS_1 - 1);
  wait_for_launch_before();
  float h[EACH][2];
  float most = 0.0f;
#pragma unroll
  for (int i = 0; i < EACH; i += AHEAD) {
    float4 sum[AHEAD];
#pragma unroll
    for (int j = 0; j < AHEAD; ++j) sum[j] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    for (int group = one; group <= other; ++group) {
      const float4* const theirs = reinterpret_cast<const float4*>(slots + Share::slot(down, group, tile)) + id;
#pragma unroll
      for (int j = 0; j < AHEAD; ++j) {
        const int eight = 2 * (i + j) + side;
        if (i + j < EACH && eight < EIGHTS) {
          const float4 v = fetched(theirs + eight * WORKERS);
          sum[j].x += v.x, sum[j].y += v.y, sum[j].z += v.z, sum[j].w += v.w;
        }
      }
    }
#pragma unroll
    for (int j = 0; j < AHEAD; ++j)
      if (i + j < EACH) {
        const float low = sum[j].x * (1.0f / (1.0f + expf(-sum[j].x))) * sum[j].z;
        const float high = sum[j].y * (1.0f / (1.0f + expf(-sum[j].y))) * sum[j].w;
        h[i + j][0] = inside ? low : 0.0f;
        h[i + j][1] = inside ? high : 0.0f;
        most = fmaxf(most, fmaxf(fabsf(h[i + j][0]), fabsf(h[i + j][1])));
      }
  }
  most = most_of_block(most, seen);
  float there, back;
  scales(most, there, back);
  if (threadIdx.x == 0) factors[tile * STEPS_2 + down] = back;
#pragma unroll
  for (int i = 0; i < EACH; ++i) {
    const int eight = 2 * i + side;
    if (eight < EIGHTS) {
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        const float scaled = h[i][e] * there;
        const __half big = __float2half_rn(scaled);
        const int at = place_in_image(eight * 8 + 2 * t + e, warp * 8 + g);
        image[at] = big;
        image[IMAGE + at] = __float2half_rn(scaled - __half2float(big));
      }
    }
  }
  __syncthreads();
  uint4* const to = reinterpret_cast<uint4*>(images + static_cast<long long>(tile * STEPS_2 + down) * (2 * IMAGE));
  for (int i = threadIdx.x; i < B_BYTES / 16; i += 512) to[i] = reinterpret_cast<const uint4*>(memory)[i];
  fence_proxies();
}

// Adds up the slots of 128 rows of down: 32 tokens a block.
extern "C" __global__ void __launch_bounds__(256) join_down(const float* __restrict__ slots, float* __restrict__ out) {
  using Share = Shares<DOWN_2, STEPS_2>;
  constexpr int AHEAD = 4, CUTS = (EIGHTS + AHEAD - 1) / AHEAD;
  const int cut = blockIdx.x % CUTS, tile = blockIdx.x / CUTS % TILES, down = blockIdx.x / CUTS / TILES;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
  const int begin = Share::unit_of(down) * STEPS_2;
  const int one = Share::owner(begin), other = Share::owner(begin + STEPS_2 - 1);
  wait_for_launch_before();
  float4 sum[AHEAD];
#pragma unroll
  for (int j = 0; j < AHEAD; ++j) sum[j] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
  for (int group = one; group <= other; ++group) {
    const float4* const theirs = reinterpret_cast<const float4*>(slots + Share::slot(down, group, tile)) + threadIdx.x;
#pragma unroll
    for (int j = 0; j < AHEAD; ++j) {
      const int eight = cut * AHEAD + j;
      if (eight < EIGHTS) {
        const float4 v = fetched(theirs + eight * WORKERS);
        sum[j].x += v.x, sum[j].y += v.y, sum[j].z += v.z, sum[j].w += v.w;
      }
    }
  }
  const int row = down * ROWS + warp * 16 + g;
#pragma unroll
  for (int j = 0; j < AHEAD; ++j) {
    const int eight = cut * AHEAD + j, token = tile * TILE + eight * 8 + 2 * t;
    if (eight < EIGHTS) {
      float* const to = out + static_cast<long long>(token) * FEATURES + row;
      if (token < COUNT && row < FEATURES) to[0] = sum[j].x;
      if (token < COUNT && row + 8 < FEATURES) to[8] = sum[j].z;
      if (token + 1 < COUNT && row < FEATURES) to[FEATURES] = sum[j].y;
      if (token + 1 < COUNT && row + 8 < FEATURES) to[FEATURES + 8] = sum[j].w;
    }
  }
}











































