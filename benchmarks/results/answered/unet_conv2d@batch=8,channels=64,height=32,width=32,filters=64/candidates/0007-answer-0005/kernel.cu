// 3x3 convolution by wgmma: 128 pixels (A, in registers) times N_TILE filters (B, in shared memory), k in the order of the weights.
// Three TF32 products, promoted every 24 deep; a cluster splits the channels of a tile and joins its parts in distributed shared memory.
constexpr int HW = HEIGHT * WIDTH, PIXELS = BATCH * HW, K = 9 * CHANNELS, FTILES = (FILTERS + N_TILE - 1) / N_TILE;
constexpr int CHUNKS = (CHANNELS + 7) / 8;
constexpr int ITEMS = (18 * N_TILE + 255) / 256;
constexpr int STAGE = 144 * N_TILE + 8 * X_PITCH, RP = 132, QUADS = 32 / K_SPLIT, TAKEN = (N_TILE * QUADS + 255) / 256;

#define TEXT4 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15"
#define TEXT5 TEXT4 ", %16, %17, %18, %19"
#define TEXT6 TEXT5 ", %20, %21, %22, %23"
#define TEXT7 TEXT6 ", %24, %25, %26, %27"
#define TEXT8 TEXT7 ", %28, %29, %30, %31"
#define FOUR(i) "+f"(c[i]), "+f"(c[i + 1]), "+f"(c[i + 2]), "+f"(c[i + 3])
#define LIST4 FOUR(0), FOUR(4), FOUR(8), FOUR(12)
#define LIST5 LIST4, FOUR(16)
#define LIST6 LIST5, FOUR(20)
#define LIST7 LIST6, FOUR(24)
#define LIST8 LIST7, FOUR(28)
#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
#define QUOTE_(a) #a
#define QUOTE(a) QUOTE_(a)

__device__ __forceinline__ void product(float (&c)[N_TILE / 2], const unsigned (&a)[4], unsigned long long b) {
  asm volatile("wgmma.mma_async.sync.aligned.m64n" QUOTE(N_TILE) "k8.f32.tf32.tf32 {" JOIN(TEXT, N_FRAGS) "}, {%" QUOTE(OPERAND0)
               ", %" QUOTE(OPERAND1) ", %" QUOTE(OPERAND2) ", %" QUOTE(OPERAND3) "}, %" QUOTE(OPERAND4) ", 1, 1, 1;"
               : JOIN(LIST, N_FRAGS)
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}
__device__ __forceinline__ void finish(float (&c)[N_TILE / 2]) {
  asm volatile("wgmma.wait_group.sync.aligned 0;" : JOIN(LIST, N_FRAGS) : : "memory");
}
__device__ __forceinline__ void copy4(float* to, const float* from, bool inside) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"((unsigned)__cvta_generic_to_shared(to)), "l"(from),
               "r"(inside ? 4 : 0) : "memory");
}
// The unit drops the low 13 bits; big is rounded, so that small has either sign and 12 bits.
__device__ __forceinline__ void split(float v, unsigned& big, unsigned& small) {
  big = (__float_as_uint(v) + 0x1000u) & 0xffffe000u;
  small = __float_as_uint(v - __uint_as_float(big));
}
// Where a pixel stands when zeros follow each row and a row of zeros each image: then all taps are constant distances.
__device__ __forceinline__ int place(int p) {
  const int image = p / HW, rest = p % HW;
  return (image * (HEIGHT + 1) + rest / WIDTH) * PITCH + rest % WIDTH;
}
// All threads of the cluster.
__device__ __forceinline__ void meet() {
  if (K_SPLIT > 1) {
    asm volatile("barrier.cluster.arrive.aligned;" ::: "memory");
    asm volatile("barrier.cluster.wait.aligned;" ::: "memory");
  } else {
    __syncthreads();
  }
}

extern "C" __global__ void __launch_bounds__(256, 1) convolve(
    const float* __restrict__ x,
    const float* __restrict__ weight,
    const float* __restrict__ bias,
    float* __restrict__ out) {
  // A stage of 8 channels: weights big and small, [4 of k][filter][k], then x, [channel][place].
  extern __shared__ __align__(1024) float shared[];
  const int tid = threadIdx.x, lane = tid % 32, warp = tid / 32, g = lane / 4, t = lane % 4;
  const int rank = blockIdx.x % K_SPLIT, tile = blockIdx.x / K_SPLIT;
  const int f0 = tile % FTILES * N_TILE, p0 = tile / FTILES * 128;
  const int origin = place(p0), steps = (CHUNKS - rank + K_SPLIT - 1) / K_SPLIT;

  const auto load = [&](const int s) {
    float* const xs = shared + s % 2 * STAGE + 144 * N_TILE;
    const int first = (s * K_SPLIT + rank) * 8;
    for (int j = tid; j < X_SPAN; j += 256) {
      const int q = origin - PITCH - 1 + j, row = q / PITCH, col = q % PITCH, image = row / (HEIGHT + 1), y = row % (HEIGHT + 1);
      const bool inside = q >= 0 && col < WIDTH && y < HEIGHT && image < BATCH;
      const float* const from = x + (inside ? ((image * CHANNELS + first) * HEIGHT + y) * WIDTH + col : 0);
#pragma unroll
      for (int c = 0; c < 8; ++c) {
        const bool there = inside && first + c < CHANNELS;
        copy4(xs + c * X_PITCH + j, there ? from + c * HW : x, there);
      }
    }
    asm volatile("cp.async.commit_group;" ::: "memory");
  };

  // Eight neighbouring threads have eight filters, the next eight the next four weights: no bank is met twice in writing.
  float v[ITEMS][4];
  const auto fetch = [&](const int s) {
#pragma unroll
    for (int i = 0; i < ITEMS; ++i) {
      const int e = tid + 256 * i, n = e / 8 / 18 * 8 + e % 8, k = (s * K_SPLIT + rank) * 72 + e / 8 % 18 * 4;
      const bool inside = e < 18 * N_TILE && f0 + n < FILTERS;
      const float* const from = weight + (inside ? (f0 + n) * K + k : 0);
      if (CHANNELS % 4 == 0) {
        float4 w = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        if (inside && k < K) w = *reinterpret_cast<const float4*>(from);
        v[i][0] = w.x, v[i][1] = w.y, v[i][2] = w.z, v[i][3] = w.w;
      } else {
#pragma unroll
        for (int d = 0; d < 4; ++d) v[i][d] = inside && k + d < K ? from[d] : 0.0f;
      }
    }
  };
  const auto put = [&](const int s) {
#pragma unroll
    for (int i = 0; i < ITEMS; ++i) {
      const int e = tid + 256 * i, n = e / 8 / 18 * 8 + e % 8;
      if (e < 18 * N_TILE) {
        uint4 big, small;
        split(v[i][0], big.x, small.x);
        split(v[i][1], big.y, small.y);
        split(v[i][2], big.z, small.z);
        split(v[i][3], big.w, small.w);
        float* const to = shared + s % 2 * STAGE + (e / 8 % 18 * N_TILE + n) * 4;
        *reinterpret_cast<uint4*>(to) = big;
        *reinterpret_cast<uint4*>(to + 72 * N_TILE) = small;
      }
    }
  };

  load(0);
  fetch(0);
  int px[2], ks[18];  // where this thread's pixels and weights find their x
#pragma unroll
  for (int h = 0; h < 2; ++h) px[h] = place(min(p0 + warp * 16 + g + 8 * h, PIXELS - 1)) - origin;
#pragma unroll
  for (int j = 0; j < 18; ++j) {
    const int k = j * 4 + t;
    ks[j] = k / 9 * X_PITCH + k % 9 / 3 * PITCH + k % 3;
  }
  const auto take = [&](const float* xs, const int third, unsigned (&big)[3][4], unsigned (&small)[3][4]) {
#pragma unroll
    for (int i = 0; i < 3; ++i)
#pragma unroll
      for (int e = 0; e < 4; ++e) split(xs[px[e % 2] + ks[(third * 3 + i) * 2 + e / 2]], big[i][e], small[i][e]);
  };
  // No swizzle: 8 filters times 16 bytes together, the next 8 filters 128 bytes on, the next 4 of k N_TILE times 16 bytes on.
  const unsigned address = (unsigned)__cvta_generic_to_shared(shared);
  const unsigned long long described =
      (unsigned long long)((address & 0x3FFFF) >> 4) | (unsigned long long)N_TILE << 16 | 8ull << 32;
  float sum[N_TILE / 2];
#pragma unroll
  for (int i = 0; i < N_TILE / 2; ++i) sum[i] = 0.0f;

  put(0);
  for (int s = 0; s < steps; ++s) {
    if (s + 1 < steps) fetch(s + 1);
    asm volatile("cp.async.wait_group 0;" ::: "memory");
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    if (s + 1 < steps) load(s + 1);
    const float* const xs = shared + s % 2 * STAGE + 144 * N_TILE;
    const unsigned long long b = described + s % 2 * (STAGE / 4);
    unsigned big[2][3][4], small[2][3][4];
    take(xs, 0, big[0], small[0]);
#pragma unroll
    for (int third = 0; third < 3; ++third) {
      float c[N_TILE / 2];
      // Empty statements keep what defines registers before the fence, and what reads them after the wait.
#pragma unroll
      for (int i = 0; i < N_TILE / 2; ++i) {
        c[i] = 0.0f;
        asm volatile("" : "+f"(c[i]));
      }
#pragma unroll
      for (int i = 0; i < 12; ++i)
        asm volatile("" : "+r"(big[third % 2][i / 4][i % 4]), "+r"(small[third % 2][i / 4][i % 4]));
      asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
      for (int i = 0; i < 3; ++i) {
        const unsigned long long at = b + (third * 3 + i) * 2 * N_TILE;
        product(c, small[third % 2][i], at);
        product(c, big[third % 2][i], at + 18 * N_TILE);
        product(c, big[third % 2][i], at);
      }
      asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
      if (third < 2) take(xs, third + 1, big[(third + 1) % 2], small[(third + 1) % 2]);
      finish(c);
#pragma unroll
      for (int i = 0; i < N_TILE / 2; ++i) {
        sum[i] += c[i];
        asm volatile("" : "+f"(sum[i]));
      }
    }
    if (s + 1 < steps) put(s + 1);
  }

  __syncthreads();
#pragma unroll
  for (int i = 0; i < N_TILE / 2; ++i)
    shared[(i / 4 * 8 + 2 * t + i % 2) * RP + warp * 16 + g + i % 4 / 2 * 8] = sum[i];
  meet();
  // Each block of the cluster finishes its share of the pixels.
  float w[TAKEN][4];
#pragma unroll
  for (int i = 0; i < TAKEN; ++i) {
    const int k = min(tid + 256 * i, N_TILE * QUADS - 1);
    const unsigned own = address + 4 * (k / QUADS * RP + (rank * QUADS + k % QUADS) * 4);
#pragma unroll
    for (int d = 0; d < 4; ++d) w[i][d] = bias[min(f0 + k / QUADS, FILTERS - 1)];
#pragma unroll
    for (int r = 0; r < K_SPLIT; ++r) {
      unsigned there = own;
      if (K_SPLIT > 1) asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(own), "r"(r));
      float4 p;
      asm volatile("ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [%4];" : "=f"(p.x), "=f"(p.y), "=f"(p.z), "=f"(p.w) : "r"(there));
      w[i][0] += p.x, w[i][1] += p.y, w[i][2] += p.z, w[i][3] += p.w;
    }
  }
#pragma unroll
  for (int i = 0; i < TAKEN; ++i) {
    const int k = tid + 256 * i, f = f0 + k / QUADS, p = p0 + (rank * QUADS + k % QUADS) * 4;
    if (k < N_TILE * QUADS && f < FILTERS) {
      if (HW % 4 == 0) {
        if (p < PIXELS)
          *reinterpret_cast<float4*>(out + (p / HW * FILTERS + f) * HW + p % HW) = make_float4(w[i][0], w[i][1], w[i][2], w[i][3]);
      } else {
#pragma unroll
        for (int d = 0; d < 4; ++d)
          if (p + d < PIXELS) out[((p + d) / HW * FILTERS + f) * HW + (p + d) % HW] = w[i][d];
      }
    }
  }
  meet();  // what others read stays until they have read it
}








































