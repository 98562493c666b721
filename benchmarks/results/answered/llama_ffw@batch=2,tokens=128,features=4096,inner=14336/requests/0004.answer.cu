// Sums of three half products by mma.sync, with float32's error: rows are scaled by powers of two and split into two
// halves (22 bits), weights on their way through shared memory, x and the hidden values once beforehand.
#include <cuda_fp16.h>

constexpr int BM = 128;                            // rows of a tile, and of weights in it
constexpr int A_HALF = BM * 128, A_BYTES = 2 * A_HALF;   // 64 halves a row: the big parts, then the small ones
constexpr int B_HALF = 128 * 128, B_BYTES = 2 * B_HALF;
constexpr int STAGE_BYTES = A_BYTES + B_BYTES;
constexpr int RAW_BYTES = 128 * 64 * 4;            // a step of weights as they lie in memory
constexpr int MT = (TOKENS + BM - 1) / BM;
constexpr int STEPS1 = (FEATURES + 63) / 64, STEPS2 = (INNER + 63) / 64;
constexpr int PITCH = STEPS2 * 64;                 // of the hidden values

__device__ __forceinline__ void wait_for_launch_before() { asm volatile("griddepcontrol.wait;" ::: "memory"); }
__device__ __forceinline__ void let_next_launch_start() { asm volatile("griddepcontrol.launch_dependents;"); }

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

__device__ __forceinline__ void load_matrices(unsigned (&to)[4], const unsigned from) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3]) : "r"(from) : "memory");
}
__device__ __forceinline__ void multiply(float (&c)[4], const unsigned (&a)[4], const unsigned b0, const unsigned b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// Blocks that have the same rows share the steps of all their tiles equally. A tile that several of them have a part in
// is put together, in order, by the one that is done last. A warp has 64 x 32 elements; if fused, 64 x 16 of gate and
// the same of up.
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
  // Two stages of split panels, two steps of weights, two rows of factors, a flag.
  const unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(room));
  float* const factors = reinterpret_cast<float*>(room + 2 * STAGE_BYTES + 2 * RAW_BYTES);
  volatile int* const flag = reinterpret_cast<volatile int*>(room + 2 * STAGE_BYTES + 2 * RAW_BYTES + 1024);
  let_next_launch_start();
  wait_for_launch_before();

  const int mt = blockIdx.x % MT, block = blockIdx.x / MT;
  const int begin = static_cast<int>(static_cast<long long>(ALL) * block / BLOCKS);
  const int end = static_cast<int>(static_cast<long long>(ALL) * (block + 1) / BLOCKS);
  const int thread = threadIdx.x, lane = thread % 32, warp = thread / 32;
  const int high = warp / 4 * 64, wide = warp % 4 * 32;  // where the elements of this warp begin
  float* const raw = reinterpret_cast<float*>(room + 2 * STAGE_BYTES) + warp * 1024;
  const float* const weights = Fused && warp % 2 ? weights1 : weights0;

  for (int at = begin; at < end;) {
    const int nt = at / STEPS, from = at % STEPS, count = min(STEPS - from, end - at);
    at += count;
    // Sixteen rows of weights for each warp, which reads what it has copied, and nobody else does.
    const int top = nt * SPAN + (Fused ? warp / 2 : warp) * 16;
    const auto fetch_weights = [&](const int step) {
      if (step < count) {
        float* const to = raw + step % 2 * (RAW_BYTES / 4);
#pragma unroll
        for (int i = 0; i < 32 / WIDTH; ++i) {
          const int e = (i * 32 + lane) * WIDTH, col = top + e / 64, k = (from + step) * 64 + e % 64;
          const bool inside = col < COLS && k < DEPTH;
          copy_async<WIDTH>(to + e, inside ? weights + (static_cast<long long>(col) * DEPTH + k) : weights, inside);
        }
      }
    };
    const auto fetch_image = [&](const int step) {
      if (step < count) {
        const unsigned char* const source =
            image + (static_cast<long long>(mt) * STEPS + from + step) * A_BYTES + thread * 16;
        unsigned char* const to = room + step % 2 * STAGE_BYTES + thread * 16;
#pragma unroll
        for (int i = 0; i < A_BYTES / 4096; ++i)
          copy_async<4>(reinterpret_cast<float*>(to + i * 4096), reinterpret_cast<const float*>(source + i * 4096), true);
      }
    };
    const auto convert = [&](const int step) {
      if (step < count) {
        const float* const own = raw + step % 2 * (RAW_BYTES / 4) + lane * 8;
        unsigned char* const panel = room + step % 2 * STAGE_BYTES + A_BYTES;
#pragma unroll
        for (int q = 0; q < 4; ++q) {
          const float4 v = *reinterpret_cast<const float4*>(own + q * 256);
          const float4 w = *reinterpret_cast<const float4*>(own + q * 256 + 4);
          float most = fmaxf(largest_of(v), largest_of(w));
#pragma unroll
          for (int d = 1; d < 8; d *= 2) most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, d));
          const int e = scale_for(most);
          const float scale = power_of_two(e);
          uint4 big, small;
          parted(v.x * scale, v.y * scale, big.x, small.x);
          parted(v.z * scale, v.w * scale, big.y, small.y);
          parted(w.x * scale, w.y * scale, big.z, small.z);
          parted(w.z * scale, w.w * scale, big.w, small.w);
          const int row = warp * 16 + q * 4 + lane / 8;
          unsigned char* const to = panel + row * 128 + ((lane % 8 ^ (row & 7)) << 4);
          *reinterpret_cast<uint4*>(to) = big;
          *reinterpret_cast<uint4*>(to + B_HALF) = small;
          if (lane % 8 == 0) factors[step % 2 * 128 + row] = power_of_two(-e);
        }
      }
    };
    float sum[4][4][4] = {};
    fetch_weights(0);
    close_copies();
    fetch_image(0);
    fetch_weights(1);
    close_copies();
    wait_for_copies<1>();
    __syncwarp();
    convert(0);
    for (int step = 0; step < count; ++step) {
      // Now this step's panels and the next one's weights are here, and the other stage is free.
      wait_for_copies<0>();
      __syncthreads();
      fetch_image(step + 1);
      fetch_weights(step + 2);
      close_copies();
      convert(step + 1);
      const unsigned left = address + step % 2 * STAGE_BYTES, right = left + A_BYTES;
      float fresh[4][4][4] = {};
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        unsigned big_r[2][4], small_r[2][4];
#pragma unroll
        for (int j = 0; j < 2; ++j) {
          const int row = wide + j * 16 + lane / 16 * 8 + lane % 8, c = k * 2 + lane / 8 % 2;
          const unsigned place = right + row * 128 + ((c ^ (row & 7)) << 4);
          load_matrices(big_r[j], place);
          load_matrices(small_r[j], place + B_HALF);
        }
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const int row = high + i * 16 + lane % 16, c = k * 2 + lane / 16;
          const unsigned place = left + row * 128 + ((c ^ (row & 7)) << 4);
          unsigned big_l[4], small_l[4];
          load_matrices(small_l, place + A_HALF);
          load_matrices(big_l, place);
#pragma unroll
          for (int j = 0; j < 4; ++j) multiply(fresh[i][j], small_l, big_r[j / 2][j % 2 * 2], big_r[j / 2][j % 2 * 2 + 1]);
#pragma unroll
          for (int j = 0; j < 4; ++j) multiply(fresh[i][j], big_l, small_r[j / 2][j % 2 * 2], small_r[j / 2][j % 2 * 2 + 1]);
#pragma unroll
          for (int j = 0; j < 4; ++j) multiply(fresh[i][j], big_l, big_r[j / 2][j % 2 * 2], big_r[j / 2][j % 2 * 2 + 1]);
        }
      }
      // A tensor core rounds its sums towards zero, so the float units add the steps up.
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const float2 f = *reinterpret_cast<const float2*>(factors + step % 2 * 128 + wide + j * 8 + lane % 4 * 2);
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          sum[i][j][0] = fmaf(fresh[i][j][0], f.x, sum[i][j][0]);
          sum[i][j][1] = fmaf(fresh[i][j][1], f.y, sum[i][j][1]);
          sum[i][j][2] = fmaf(fresh[i][j][2], f.x, sum[i][j][2]);
          sum[i][j][3] = fmaf(fresh[i][j][3], f.y, sum[i][j][3]);
        }
      }
    }
    __syncthreads();
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
      for (int i = 0; i < 16; ++i)
        *reinterpret_cast<float4*>(own + i * 1024) =
            make_float4(sum[i / 4][i % 4][0], sum[i / 4][i % 4][1], sum[i / 4][i % 4][2], sum[i / 4][i % 4][3]);
      __threadfence();
      __syncthreads();
      unsigned* const arrived = came + mt * NT + nt;
      if (thread == 0) *flag = atomicAdd(arrived, 1u) == static_cast<unsigned>(other - one);
      __syncthreads();
      if (!*flag) continue;
      if (thread == 0) *arrived = 0;
      __threadfence();
#pragma unroll
      for (int i = 0; i < 16; ++i)
#pragma unroll
        for (int e = 0; e < 4; ++e) sum[i / 4][i % 4][e] = 0.0f;
      for (int of = one; of <= other; ++of) {
        const float* const theirs = part(of);
#pragma unroll
        for (int i = 0; i < 16; ++i) {
          const float4 v = __ldcg(reinterpret_cast<const float4*>(theirs + i * 1024));
          sum[i / 4][i % 4][0] += v.x, sum[i / 4][i % 4][1] += v.y;
          sum[i / 4][i % 4][2] += v.z, sum[i / 4][i % 4][3] += v.w;
        }
      }
    }
#pragma unroll
    for (int i = 0; i < 4; ++i)
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const int row = mt * BM + high + i * 16 + h * 8 + lane / 4;
        if (row < TOKENS) {
          const float factor = __ldcg(row_scale + row);
          if constexpr (Fused) {
            float* const to = result + static_cast<long long>(row) * PITCH + nt * 64 + wide / 2 + lane % 4 * 2;
#pragma unroll
            for (int j = 0; j < 2; ++j) {
              float2 v;
              const float g0 = sum[i][j][2 * h] * factor, g1 = sum[i][j][2 * h + 1] * factor;
              v.x = g0 / (1.0f + expf(-g0)) * (sum[i][j + 2][2 * h] * factor);
              v.y = g1 / (1.0f + expf(-g1)) * (sum[i][j + 2][2 * h + 1] * factor);
              *reinterpret_cast<float2*>(to + 8 * j) = v;
            }
          } else {
#pragma unroll
            for (int j = 0; j < 4; ++j) {
              const int col = nt * 128 + wide + 8 * j + lane % 4 * 2;
              float* const to = result + static_cast<long long>(row) * FEATURES + col;
              const float v0 = sum[i][j][2 * h] * factor, v1 = sum[i][j][2 * h + 1] * factor;
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
extern "C" __global__ void __launch_bounds__(256, 1) gate_and_up(
    const unsigned char* image, const float* row_scale, const float* __restrict__ gate,
    const float* __restrict__ up, float* __restrict__ hidden, float* __restrict__ parts, unsigned* __restrict__ came) {
  product<true>(image, row_scale, gate, up, hidden, parts, came);
}
extern "C" __global__ void __launch_bounds__(256, 1) down_again(
    const unsigned char* image, const float* row_scale, const float* __restrict__ down,
    float* __restrict__ out, float* __restrict__ parts, unsigned* __restrict__ came) {
  product<false>(image, row_scale, down, down, out, parts, came);
}

/* plan.py
import kw

def ceil(a, b):
    return -(-a // b)

def widest(size):
    return 4 if size % 4 == 0 else 2 if size % 2 == 0 else 1

def plan(x, gate, up, down, out):
    m, features, inner = x.size(0) * x.size(1), x.size(2), gate.size(0)
    high = 128
    tiles = ceil(m, high)
    steps1, steps2 = ceil(features, 64), ceil(inner, 64)
    across1, across2 = ceil(inner, 64), ceil(features, 128)
    teams = max(1, kw.device.multiprocessors // tiles)
    blocks1 = tiles * min(teams, across1 * steps1)
    blocks2 = tiles * min(teams, across2 * steps2)
    rows = tiles * high
    image1 = kw.scratch("image1", rows * steps1 * 256)
    image2 = kw.scratch("image2", rows * steps2 * 256)
    scale1 = kw.scratch("scale1", rows * 4)
    scale2 = kw.scratch("scale2", rows * 4)
    hidden = kw.scratch("hidden", m * steps2 * 64 * 4)
    parts1 = kw.scratch("parts1", blocks1 * 2 * high * 128 * 4)
    parts2 = kw.scratch("parts2", blocks2 * 2 * high * 128 * 4)
    came1 = kw.workspace("came1", 4 * tiles * across1)
    came2 = kw.workspace("came2", 4 * tiles * across2)
    shared = 2 * 65536 + 2 * 32768 + 1024 + 16
    return kw.plan(
        kw.launch("split_x", rows, 256, x, image1, scale1),
        kw.launch("gate_and_up", blocks1, 256, image1, scale1, gate, up, hidden, parts1, came1, shared=shared, dependent=True),
        kw.launch("split_hidden", rows, 256, hidden, image2, scale2, dependent=True),
        kw.launch("down_again", blocks2, 256, image2, scale2, down, out, parts2, came2, shared=shared, dependent=True),
        definitions={"TOKENS": m, "FEATURES": features, "INNER": inner,
                     "WIDTH1": widest(features), "WIDTH2": widest(inner), "BLOCKS1": blocks1, "BLOCKS2": blocks2})
*/
