// 3x3 convolution by wgmma: 64 filters (A, in registers) times N_TILE places of the zero-padded images in a line (B, in shared memory,
// channels innermost), so that a tap is only another start of B. Three TF32 products, promoted every 24 deep; two warpgroups share the channels.
constexpr int HW = HEIGHT * WIDTH, PITCH = WIDTH + 1, FTILES = (FILTERS + 63) / 64;
constexpr int PX = N_TILE + 2 * PITCH + 2;  // places that a tile sees
constexpr int ITEMS = (4 * PX + 255) / 256;
// A filter's 72 weights of 8 channels, and room for 3 more before them: 16-byte copies begin at a multiple of four.
constexpr int WK = 76, VECTORS = 19;
constexpr int STAGE = 32 * PX + 2 * 64 * WK, STAGES = (CHANNELS + 15) / 16;
constexpr int RP = N_TILE % 16 == 8 ? N_TILE : N_TILE + 8;

#define TEXT1 "%0, %1, %2, %3"
#define TEXT2 TEXT1 ", %4, %5, %6, %7"
#define TEXT3 TEXT2 ", %8, %9, %10, %11"
#define TEXT4 TEXT3 ", %12, %13, %14, %15"
#define TEXT5 TEXT4 ", %16, %17, %18, %19"
#define TEXT6 TEXT5 ", %20, %21, %22, %23"
#define TEXT7 TEXT6 ", %24, %25, %26, %27"
#define TEXT8 TEXT7 ", %28, %29, %30, %31"
#define TEXT9 TEXT8 ", %32, %33, %34, %35"
#define TEXT10 TEXT9 ", %36, %37, %38, %39"
#define TEXT11 TEXT10 ", %40, %41, %42, %43"
#define TEXT12 TEXT11 ", %44, %45, %46, %47"
#define TEXT13 TEXT12 ", %48, %49, %50, %51"
#define TEXT14 TEXT13 ", %52, %53, %54, %55"
#define TEXT15 TEXT14 ", %56, %57, %58, %59"
#define TEXT16 TEXT15 ", %60, %61, %62, %63"
#define FOUR(i) "+f"(c[i]), "+f"(c[i + 1]), "+f"(c[i + 2]), "+f"(c[i + 3])
#define LIST1 FOUR(0)
#define LIST2 LIST1, FOUR(4)
#define LIST3 LIST2, FOUR(8)
#define LIST4 LIST3, FOUR(12)
#define LIST5 LIST4, FOUR(16)
#define LIST6 LIST5, FOUR(20)
#define LIST7 LIST6, FOUR(24)
#define LIST8 LIST7, FOUR(28)
#define LIST9 LIST8, FOUR(32)
#define LIST10 LIST9, FOUR(36)
#define LIST11 LIST10, FOUR(40)
#define LIST12 LIST11, FOUR(44)
#define LIST13 LIST12, FOUR(48)
#define LIST14 LIST13, FOUR(52)
#define LIST15 LIST14, FOUR(56)
#define LIST16 LIST15, FOUR(60)
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
__device__ __forceinline__ void copy16(float* to, const float* from, int bytes) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"((unsigned)__cvta_generic_to_shared(to)), "l"(from),
               "r"(bytes) : "memory");
}
// The unit drops the low 13 bits; big is rounded, so that small has either sign and 12 bits.
__device__ __forceinline__ void split(float v, unsigned& big, unsigned& small) {
  big = (__float_as_uint(v) + 0x1000u) & 0xffffe000u;
  small = __float_as_uint(v - __uint_as_float(big));
}

extern "C" __global__ void __launch_bounds__(256, 1) convolve(
    const float* __restrict__ x,
    const float* __restrict__ weight,
    const float* __restrict__ bias,
    float* __restrict__ out) {
  // A stage of 16 channels: x big and small, [4 channels][place][channel], then weights, [8 channels][filter][channel and tap].
  extern __shared__ __align__(1024) float shared[];
  const int tid = threadIdx.x, lane = tid % 32, warp = tid / 32, g = lane / 4, t = lane % 4;
  const int half = warp / 4, f0 = blockIdx.x % FTILES * 64, q0 = blockIdx.x / FTILES * N_TILE;

  const auto load = [&](const int s) {
    float* const w = shared + s % 2 * STAGE + 32 * PX;
    for (int v = tid; v < 2 * 64 * VECTORS; v += 256) {
      const int row = v / VECTORS, part = v % VECTORS, c = s * 16 + row / 64 * 8;
      if (c < CHANNELS) {
        const int at = (((f0 + row % 64) * CHANNELS + c) * 9 & ~3) + part * 4, left = FILTERS * CHANNELS * 9 - at;
        copy16(w + row * WK + part * 4, weight + (left > 0 ? at : 0), left > 4 ? 16 : left > 0 ? left * 4 : 0);
      }
    }
    asm volatile("cp.async.commit_group;" ::: "memory");
  };
  load(0);

  // A zero follows each row and a row of zeros each image: then all taps are constant distances.
  int from[ITEMS];
#pragma unroll
  for (int i = 0; i < ITEMS; ++i) {
    const int e = tid + 256 * i, q = q0 - PITCH - 1 + e % PX;
    const int row = q / PITCH, col = q % PITCH, image = row / (HEIGHT + 1), y = row % (HEIGHT + 1);
    const bool inside = e < 4 * PX && q >= 0 && col < WIDTH && y < HEIGHT && image < BATCH;
    from[i] = inside ? ((image * CHANNELS + e / PX * 4) * HEIGHT + y) * WIDTH + col : -1;
  }
  float v[ITEMS][4];
  const auto fetch = [&](const int s) {
#pragma unroll
    for (int i = 0; i < ITEMS; ++i)
#pragma unroll
      for (int d = 0; d < 4; ++d) {
        const bool inside = from[i] >= 0 && s * 16 + (tid + 256 * i) / PX * 4 + d < CHANNELS;
        v[i][d] = inside ? x[from[i] + (s * 16 + d) * HW] : 0.0f;
      }
  };
  const auto put = [&](const int s) {
#pragma unroll
    for (int i = 0; i < ITEMS; ++i) {
      const int e = tid + 256 * i;
      if (e < 4 * PX) {
        uint4 big, small;
        split(v[i][0], big.x, small.x);
        split(v[i][1], big.y, small.y);
        split(v[i][2], big.z, small.z);
        split(v[i][3], big.w, small.w);
        float* const to = shared + s % 2 * STAGE + 4 * e;
        *reinterpret_cast<uint4*>(to) = big;
        *reinterpret_cast<uint4*>(to + 16 * PX) = small;
      }
    }
  };
  const auto take = [&](const float* w, const int ky, unsigned (&big)[3][4], unsigned (&small)[3][4]) {
#pragma unroll
    for (int kx = 0; kx < 3; ++kx)
#pragma unroll
      for (int e = 0; e < 4; ++e) split(w[e % 2 * 8 * WK + e / 2 * 36 + ky * 3 + kx], big[kx][e], small[kx][e]);
  };

  // No swizzle: 8 places times 16 bytes together, the next 8 places 128 bytes on, the next 4 channels PX times 16 bytes on.
  const unsigned address = (unsigned)__cvta_generic_to_shared(shared + half * 8 * PX);
  const unsigned long long described = (unsigned long long)((address & 0x3FFFF) >> 4) | (unsigned long long)PX << 16 | 8ull << 32;
  const int mine = 32 * PX + (half * 64 + warp % 4 * 16 + g) * WK + (g * CHANNELS & 3) + t * 9;
  float sum[N_TILE / 2];
#pragma unroll
  for (int i = 0; i < N_TILE / 2; ++i) sum[i] = 0.0f;

  fetch(0);
  put(0);
  for (int s = 0; s < STAGES; ++s) {
    if (s + 1 < STAGES) fetch(s + 1);
    asm volatile("cp.async.wait_group 0;" ::: "memory");
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    if (s + 1 < STAGES) load(s + 1);
    if (s * 16 + half * 8 < CHANNELS) {
      const float* const w = shared + s % 2 * STAGE + mine;
      const unsigned long long b = described + s % 2 * (STAGE / 4);
      unsigned big[2][3][4], small[2][3][4];
      take(w, 0, big[0], small[0]);
#pragma unroll
      for (int ky = 0; ky < 3; ++ky) {
        float c[N_TILE / 2];
        // Empty statements keep what defines registers before the fence, and what reads them after the wait.
#pragma unroll
        for (int i = 0; i < N_TILE / 2; ++i) {
          c[i] = 0.0f;
          asm volatile("" : "+f"(c[i]));
        }
#pragma unroll
        for (int i = 0; i < 12; ++i) asm volatile("" : "+r"(big[ky % 2][i / 4][i % 4]), "+r"(small[ky % 2][i / 4][i % 4]));
        asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
        for (int kx = 0; kx < 3; ++kx) {
          const unsigned long long tap = b + ky * PITCH + kx;
          product(c, small[ky % 2][kx], tap);
          product(c, big[ky % 2][kx], tap + 4 * PX);
          product(c, big[ky % 2][kx], tap);
        }
        asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
        if (ky < 2) take(w, ky + 1, big[(ky + 1) % 2], small[(ky + 1) % 2]);
        finish(c);
#pragma unroll
        for (int i = 0; i < N_TILE / 2; ++i) {
          sum[i] += c[i];
          asm volatile("" : "+f"(sum[i]));
        }
      }
    }
    if (s + 1 < STAGES) put(s + 1);
  }

  __syncthreads();
#pragma unroll
  for (int j = 0; j < N_TILE / 8; ++j) {
    float* const to = shared + (half * 64 + warp % 4 * 16 + g) * RP + 8 * j + 2 * t;
    *reinterpret_cast<float2*>(to) = make_float2(sum[4 * j], sum[4 * j + 1]);
    *reinterpret_cast<float2*>(to + 8 * RP) = make_float2(sum[4 * j + 2], sum[4 * j + 3]);
  }
  __syncthreads();
#pragma unroll 4
  for (int k = tid; k < 64 * N_TILE; k += 256) {
    const int f = k / N_TILE, at = k % N_TILE, q = q0 + at;
    const int row = q / PITCH, col = q % PITCH, image = row / (HEIGHT + 1), y = row % (HEIGHT + 1);
    if (f0 + f < FILTERS && col < WIDTH && y < HEIGHT && image < BATCH)
      out[((image * FILTERS + f0 + f) * HEIGHT + y) * WIDTH + col] = bias[f0 + f] + shared[f * RP + at] + shared[(64 + f) * RP + at];
  }
}

/* plan.py
import kw

def ceil(a, b):
    return -(-a // b)

def plan(x, weight, bias, out):
    batch, channels, height, width = x.shape
    filters = weight.shape[0]
    places = (batch * (height + 1) - 1) * (width + 1) - 1
    best = None
    for n in range(128, 31, -8):
        px = n + 2 * (width + 1) + 2
        shared = 4 * 2 * (32 * px + 2 * 64 * 76)
        if shared > kw.device.shared_per_block:
            continue
        blocks = ceil(filters, 64) * ceil(places, n)
        cost = ceil(blocks, kw.device.multiprocessors) * (3000 + ceil(channels, 16) * (27 * n + 400))
        if best is None or cost < best[0]:
            best = (cost, n, shared, blocks)
    _, n, shared, blocks = best
    definitions = {"BATCH": batch, "CHANNELS": channels, "HEIGHT": height, "WIDTH": width, "FILTERS": filters,
                   "N_TILE": n, "N_FRAGS": n // 8}
    for i in range(5):
        definitions["OPERAND%d" % i] = n // 2 + i
    return kw.plan(kw.launch("convolve", blocks, 256, x, weight, bias, out, shared=shared), definitions=definitions)
*/
