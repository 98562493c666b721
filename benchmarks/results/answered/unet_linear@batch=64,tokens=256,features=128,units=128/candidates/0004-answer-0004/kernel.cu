// unet_linear: mma.sync (three TF32 products), the weight split once per block into shared memory in the order of the tensor
// cores' operands (one 16-byte read for big and small), x straight from memory into operand registers two chunks ahead.
constexpr int STEPS = VEC == 4 ? (DEPTH + 15) / 16 * 2 : (DEPTH + 7) / 8;
constexpr int CHUNKS = (STEPS + 3) / 4, TURN = (CHUNKS + AHEAD - 1) / AHEAD * AHEAD;
constexpr int SIDES = WIDE / 16, ACROSS = WIDE / 8, TILES = (ROWS + 31) / 32;

// Two TF32 numbers whose sum is a float to its last bit or two.
__device__ __forceinline__ void parted(const float v, unsigned& big, unsigned& small) {
  big = (__float_as_uint(v) + 0x1000u) & 0xffffe000u;
  small = __float_as_uint(v - __uint_as_float(big));
}
__device__ __forceinline__ float load1(const float* const from) {
  float v;
  asm volatile("ld.global.nc.f32 %0, [%1];" : "=f"(v) : "l"(from));
  return v;
}
__device__ __forceinline__ void load2(float& a, float& b, const float* const from) {
  asm volatile("ld.global.nc.v2.f32 {%0, %1}, [%2];" : "=f"(a), "=f"(b) : "l"(from));
}
__device__ __forceinline__ void multiply(float (&sum)[4], const unsigned (&l)[4], const float r0, const float r1) {
  asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
      : "r"(l[0]), "r"(l[1]), "r"(l[2]), "r"(l[3]), "r"(__float_as_uint(r0)), "r"(__float_as_uint(r1)));
}

// Rows `row` and `row + 8` of a warp's results, straight from registers.
template <int Groups>
__device__ __forceinline__ void write_out(
    float* const out, const float (&sum)[4 * Groups], const int row, const int first, const int t) {
  float* const top = out + row * UNITS;
  float* const low = top + 8 * UNITS;
  const bool has_top = row < ROWS, has_low = row + 8 < ROWS;
  constexpr int PAIRS = UNITS % 4 == 0 ? Groups / 2 : 0;
  // Neighbouring lanes swap halves of two groups of eight columns, so that each has four columns of one.
#pragma unroll
  for (int p = 0; p < PAIRS; ++p) {
    const float* const a = sum + 8 * p;
    const float* const b = a + 4;
    const bool odd = t & 1;
    const float x0 = __shfl_xor_sync(0xffffffffu, odd ? a[0] : b[0], 1);
    const float x1 = __shfl_xor_sync(0xffffffffu, odd ? a[1] : b[1], 1);
    const float x2 = __shfl_xor_sync(0xffffffffu, odd ? a[2] : b[2], 1);
    const float x3 = __shfl_xor_sync(0xffffffffu, odd ? a[3] : b[3], 1);
    const int c = first + 16 * p + (odd ? 8 : 0) + 2 * (t & 2);
    if (c < UNITS) {
      if (has_top)
        *reinterpret_cast<float4*>(top + c) = odd ? make_float4(x0, x1, b[0], b[1]) : make_float4(a[0], a[1], x0, x1);
      if (has_low)
        *reinterpret_cast<float4*>(low + c) = odd ? make_float4(x2, x3, b[2], b[3]) : make_float4(a[2], a[3], x2, x3);
    }
  }
#pragma unroll
  for (int j = 2 * PAIRS; j < Groups; ++j) {
    const int c = first + 8 * j + 2 * t;
    if constexpr (UNITS % 2 == 0) {
      if (c < UNITS) {
        if (has_top) *reinterpret_cast<float2*>(top + c) = make_float2(sum[4 * j], sum[4 * j + 1]);
        if (has_low) *reinterpret_cast<float2*>(low + c) = make_float2(sum[4 * j + 2], sum[4 * j + 3]);
      }
    } else {
      if (c < UNITS) {
        if (has_top) top[c] = sum[4 * j];
        if (has_low) low[c] = sum[4 * j + 2];
      }
      if (c + 1 < UNITS) {
        if (has_top) top[c + 1] = sum[4 * j + 1];
        if (has_low) low[c + 1] = sum[4 * j + 3];
      }
    }
  }
}

// Where element `e` of an operand of step `s` of a chunk stands in the depth: lanes of four have VEC neighbours each.
__device__ __forceinline__ int depth_of(const int chunk, const int s, const int e, const int t) {
  return VEC == 4 ? 32 * chunk + 16 * (s / 2) + 4 * t + 2 * (s % 2) + e / 2
                  : VEC == 2 ? 32 * chunk + 8 * s + 2 * t + e / 2 : 32 * chunk + 8 * s + t + 4 * (e / 2);
}

// A chunk of four rows, those 8 apart of a tile; what lies beyond the depth is another element, and zeroed later.
__device__ __forceinline__ void fetch(
    float (&to)[2][16], const float* const x, const int tile, const int chunk, const int g, const int t) {
#pragma unroll
  for (int r = 0; r < 4; ++r) {
    const float* const row = x + min(tile * 32 + 8 * r + g, ROWS - 1) * DEPTH;
    float (&half)[16] = to[r / 2];
    const int e = r % 2;
    if constexpr (VEC == 4) {
#pragma unroll
      for (int s = 0; s < 4; s += 2)
        if (STEPS % 4 == 0 || 4 * chunk + s < STEPS) {
          int k = 32 * chunk + 8 * s + 4 * t;
          if (DEPTH % 16 != 0) k = k < DEPTH ? k : 0;
          asm volatile("ld.global.nc.v4.f32 {%0, %1, %2, %3}, [%4];"
                       : "=f"(half[4 * s + e]), "=f"(half[4 * s + e + 2]), "=f"(half[4 * s + e + 4]),
                         "=f"(half[4 * s + e + 6])
                       : "l"(row + k));
        }
    } else {
#pragma unroll
      for (int s = 0; s < 4; ++s)
        if (STEPS % 4 == 0 || 4 * chunk + s < STEPS) {
          int k = depth_of(chunk, s, 0, t), l = depth_of(chunk, s, 2, t);
          if (DEPTH % 8 != 0) k = k < DEPTH ? k : 0, l = l < DEPTH ? l : 0;
          if constexpr (VEC == 2) {
            load2(half[4 * s + e], half[4 * s + e + 2], row + k);
          } else {
            half[4 * s + e] = load1(row + k);
            half[4 * s + e + 2] = load1(row + l);
          }
        }
    }
  }
}

extern "C" __global__ void __launch_bounds__(256, 1) linear(
    const float* __restrict__ x, const float* __restrict__ weight, const float* __restrict__ bias,
    float* __restrict__ out) {
  extern __shared__ __align__(16) float4 operands[];
  float* const biases = reinterpret_cast<float*>(operands + STEPS * ACROSS * 32);
  const int lane = threadIdx.x % 32, warp = __shfl_sync(0xffffffffu, threadIdx.x / 32, 0);
  const int g = lane / 4, t = lane % 4;
  const int first = blockIdx.x % SLICES * WIDE, place = blockIdx.x / SLICES, half = warp % 2;

  // Two warps have the same 32 rows, and half of the columns each.
  int tile = place + PLACES * (warp / 2);
  float raw[AHEAD][2][16];
  if (tile < TILES) {
#pragma unroll
    for (int c = 0; c < AHEAD; ++c)
      if (c < CHUNKS) fetch(raw[c], x, tile, c, g, t);
  }

  constexpr int TASKS = STEPS * ACROSS, BATCH = 16;
#pragma unroll 1
  for (int base = warp; base < TASKS; base += 8 * BATCH) {
    float w[BATCH][2];
#pragma unroll
    for (int i = 0; i < BATCH; ++i) {
      const int task = base + 8 * i, step = task / ACROSS, n = first + task % ACROSS * 8 + g;
      const int k = depth_of(step / 4, step % 4, 0, t), l = depth_of(step / 4, step % 4, 2, t);
      const bool known = task < TASKS && n < UNITS;
      const float* const row = weight + n * DEPTH;
      if constexpr (VEC > 1) {
        load2(w[i][0], w[i][1], known && k < DEPTH ? row + k : weight);
      } else {
        w[i][0] = load1(known && k < DEPTH ? row + k : weight);
        w[i][1] = load1(known && l < DEPTH ? row + l : weight);
      }
    }
#pragma unroll
    for (int i = 0; i < BATCH; ++i) {
      const int task = base + 8 * i, step = task / ACROSS, n = first + task % ACROSS * 8 + g;
      const int k = depth_of(step / 4, step % 4, 0, t), l = depth_of(step / 4, step % 4, 2, t);
      unsigned big[2], small[2];
      parted(n < UNITS && k < DEPTH ? w[i][0] : 0.0f, big[0], small[0]);
      parted(n < UNITS && l < DEPTH ? w[i][1] : 0.0f, big[1], small[1]);
      if (task < TASKS)
        operands[task * 32 + lane] = make_float4(
            __uint_as_float(big[0]), __uint_as_float(big[1]), __uint_as_float(small[0]), __uint_as_float(small[1]));
    }
  }
  if (threadIdx.x < WIDE)
    biases[threadIdx.x] = first + static_cast<int>(threadIdx.x) < UNITS ? bias[first + threadIdx.x] : 0.0f;
  __syncthreads();

  const float4* const mine = operands + half * SIDES * 32 + lane;
  while (tile < TILES) {
    const int next = tile + PLACES * 4;
    float sum[2][4 * SIDES];
#pragma unroll
    for (int j = 0; j < SIDES; ++j) {
      const float2 b = *reinterpret_cast<const float2*>(biases + (half * SIDES + j) * 8 + 2 * t);
#pragma unroll
      for (int m = 0; m < 2; ++m) {
        sum[m][4 * j] = sum[m][4 * j + 2] = b.x;
        sum[m][4 * j + 1] = sum[m][4 * j + 3] = b.y;
      }
    }
#pragma unroll 1
    for (int c0 = 0; c0 < TURN; c0 += AHEAD) {
#pragma unroll
      for (int a = 0; a < AHEAD; ++a) {
        const int c = c0 + a;
        if (TURN == CHUNKS || c < CHUNKS) {
          // A tensor core rounds its sums towards zero, so a chunk starts from nothing.
          float part[2][SIDES][4] = {};
#pragma unroll
          for (int s = 0; s < 4; ++s) {
            if (STEPS % 4 == 0 || 4 * c + s < STEPS) {
              unsigned big[2][4], small[2][4];
#pragma unroll
              for (int i = 0; i < 8; ++i) {
                float v = raw[a][i / 4][4 * s + i % 4];
                if (DEPTH % 16 != 0) v = depth_of(c, s, i % 4, t) < DEPTH ? v : 0.0f;
                parted(v, big[i / 4][i % 4], small[i / 4][i % 4]);
              }
              const float4* const from = mine + (4 * c + s) * ACROSS * 32;
#pragma unroll
              for (int j0 = 0; j0 < SIDES; j0 += 4) {
                float4 b[4];
#pragma unroll
                for (int j = 0; j < 4; ++j)
                  if (j0 + j < SIDES) b[j] = from[(j0 + j) * 32];
#pragma unroll
                for (int i = 0; i < 8; ++i)
                  if (j0 + i % 4 < SIDES) multiply(part[i / 4][j0 + i % 4], small[i / 4], b[i % 4].x, b[i % 4].y);
#pragma unroll
                for (int i = 0; i < 8; ++i)
                  if (j0 + i % 4 < SIDES) multiply(part[i / 4][j0 + i % 4], big[i / 4], b[i % 4].z, b[i % 4].w);
#pragma unroll
                for (int i = 0; i < 8; ++i)
                  if (j0 + i % 4 < SIDES) multiply(part[i / 4][j0 + i % 4], big[i / 4], b[i % 4].x, b[i % 4].y);
              }
            }
          }
#pragma unroll
          for (int i = 0; i < 8 * SIDES; ++i)
            sum[i / (4 * SIDES)][i % (4 * SIDES)] += part[i / (4 * SIDES)][i % (4 * SIDES) / 4][i % 4];
        }
        const bool over = c + AHEAD >= TURN;
        const int then = over ? c + AHEAD - TURN : c + AHEAD, of = over ? next : tile;
        if (then < CHUNKS && of < TILES) fetch(raw[a], x, of, then, g, t);
      }
    }
#pragma unroll
    for (int m = 0; m < 2; ++m)
      write_out<SIDES>(out, sum[m], tile * 32 + 16 * m + g, first + half * SIDES * 8, t);
    tile = next;
  }
}





























