// 3x3 convolution in two overlapped launches. `prepare` lays x out once as big and small parts of the zero-padded images in a line, channels by
// four, and the weights in the order of fragments; `convolve` brings stages by bulk copies, and its two warpgroups only multiply (wgmma, 3 TF32 products).
constexpr int HW = HEIGHT * WIDTH, PITCH = WIDTH + 1, FTILES = (FILTERS + 63) / 64;
constexpr int PX = N_TILE + 2 * PITCH + 2;  // places that a tile sees
constexpr int LINE = TILES * N_TILE + 2 * PITCH + 2, LINE_BLOCKS = (LINE + 255) / 256;
constexpr int STAGES = (CHANNELS + 15) / 16, GROUPS = 4 * STAGES;
constexpr int WS = 2 * 9 * 4 * 32 * 4;  // weights of a stage: [8 channels][tap][16 filters][lane][4]
constexpr int FRAGMENTS = FTILES * STAGES * WS / 4;
constexpr int STAGE = 32 * PX + WS;
constexpr int RP = N_TILE % 16 == 8 ? N_TILE : N_TILE + 8;
constexpr int SPANS = (N_TILE + 31) / 32;

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
// The same, but what c held before does not count.
__device__ __forceinline__ void first_product(float (&c)[N_TILE / 2], const unsigned (&a)[4], unsigned long long b) {
  asm volatile("wgmma.mma_async.sync.aligned.m64n" QUOTE(N_TILE) "k8.f32.tf32.tf32 {" JOIN(TEXT, N_FRAGS) "}, {%" QUOTE(OPERAND0)
               ", %" QUOTE(OPERAND1) ", %" QUOTE(OPERAND2) ", %" QUOTE(OPERAND3) "}, %" QUOTE(OPERAND4) ", 0, 1, 1;"
               : JOIN(LIST, N_FRAGS)
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}
__device__ __forceinline__ void finish(float (&c)[N_TILE / 2]) {
  asm volatile("wgmma.wait_group.sync.aligned 0;" : JOIN(LIST, N_FRAGS) : : "memory");
}
// The unit drops the low 13 bits; big is rounded, so that small has either sign and 12 bits.
__device__ __forceinline__ void split(float v, unsigned& big, unsigned& small) {
  big = (__float_as_uint(v) + 0x1000u) & 0xffffe000u;
  small = __float_as_uint(v - __uint_as_float(big));
}
// Empty statements: what defines these registers stays before.
__device__ __forceinline__ void settle(unsigned (&big)[3][4], unsigned (&small)[3][4]) {
#pragma unroll
  for (int i = 0; i < 12; ++i) asm volatile("" : "+r"(big[i / 4][i % 4]), "+r"(small[i / 4][i % 4]));
}
// Registers of products under way are not free before the wait: a use after it.
__device__ __forceinline__ void release(const unsigned (&big)[3][4], const unsigned (&small)[3][4]) {
#pragma unroll
  for (int i = 0; i < 12; ++i) asm volatile("" ::"r"(big[i / 4][i % 4]), "r"(small[i / 4][i % 4]));
}
// The three taps of a row of the filter, 8 channels deep: 9 products into an empty c.
__device__ __forceinline__ void multiply(float (&c)[N_TILE / 2], unsigned (&big)[3][4], unsigned (&small)[3][4], unsigned long long b) {
  settle(big, small);
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
  first_product(c, small[0], b);
  product(c, big[0], b + 4 * PX);
  product(c, big[0], b);
#pragma unroll
  for (int kx = 1; kx < 3; ++kx) {
    product(c, small[kx], b + kx);
    product(c, big[kx], b + kx + 4 * PX);
    product(c, big[kx], b + kx);
  }
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
__device__ __forceinline__ void promote(float (&sum)[N_TILE / 2], float (&c)[N_TILE / 2]) {
#pragma unroll
  for (int i = 0; i < N_TILE / 2; ++i) {
    sum[i] += c[i];
    asm volatile("" : "+f"(sum[i]));
  }
}
__device__ __forceinline__ void take(const float* w, const int ky, unsigned (&big)[3][4], unsigned (&small)[3][4]) {
#pragma unroll
  for (int kx = 0; kx < 3; ++kx) {
    const float4 a = *reinterpret_cast<const float4*>(w + (ky * 3 + kx) * 512);
    split(a.x, big[kx][0], small[kx][0]);
    split(a.y, big[kx][1], small[kx][1]);
    split(a.z, big[kx][2], small[kx][2]);
    split(a.w, big[kx][3], small[kx][3]);
  }
  settle(big, small);
}
__device__ __forceinline__ void bulk(unsigned to, const float* from, unsigned bytes, unsigned barrier) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to), "l"(from), "r"(bytes),
               "r"(barrier) : "memory");
}
__device__ __forceinline__ void await(unsigned barrier, unsigned phase) {
  asm volatile("{\n.reg .pred done;\nWAIT%=:\nmbarrier.try_wait.parity.shared.b64 done, [%0], %1;\n@!done bra WAIT%=;\n}" ::"r"(barrier),
               "r"(phase) : "memory");
}

// lines: [4 channels][big, small][place][channel], place p is p - PITCH - 1 of the line in which a zero follows each row and a row of
// zeros each image. fragments: [64 filters][stage][8 channels][tap][16 filters][lane][4].
extern "C" __global__ void __launch_bounds__(256) prepare(
    const float* __restrict__ x,
    const float* __restrict__ weight,
    float* __restrict__ lines,
    float* __restrict__ fragments) {
  asm volatile("griddepcontrol.launch_dependents;");
  const int block = blockIdx.x;
  if (block < LINE_BLOCKS * GROUPS) {
    const int group = block / LINE_BLOCKS, p = block % LINE_BLOCKS * 256 + (int)threadIdx.x, q = p - PITCH - 1;
    if (p >= LINE) return;
    const int row = q / PITCH, col = q % PITCH, image = row / (HEIGHT + 1), y = row % (HEIGHT + 1);
    const bool inside = q >= 0 && col < WIDTH && y < HEIGHT && image < BATCH;
    const int from = ((image * CHANNELS + group * 4) * HEIGHT + y) * WIDTH + col;
    float v[4];
#pragma unroll
    for (int d = 0; d < 4; ++d) v[d] = inside && group * 4 + d < CHANNELS ? x[from + d * HW] : 0.0f;
    uint4 big, small;
    split(v[0], big.x, small.x);
    split(v[1], big.y, small.y);
    split(v[2], big.z, small.z);
    split(v[3], big.w, small.w);
    float* const to = lines + (group * 2 * LINE + p) * 4;
    *reinterpret_cast<uint4*>(to) = big;
    *reinterpret_cast<uint4*>(to + LINE * 4) = small;
  } else {
    const int i = (block - LINE_BLOCKS * GROUPS) * 256 + (int)threadIdx.x;
    if (i >= FRAGMENTS) return;
    const int lane = i % 32, sixteen = i / 32 % 4, tap = i / 128 % 9, half = i / 1152 % 2, stage = i / 2304 % STAGES, tile = i / (2304 * STAGES);
    float v[4];
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const int f = tile * 64 + sixteen * 16 + lane / 4 + e % 2 * 8, c = stage * 16 + half * 8 + lane % 4 + e / 2 * 4;
      v[e] = f < FILTERS && c < CHANNELS ? weight[(f * CHANNELS + c) * 9 + tap] : 0.0f;
    }
    *reinterpret_cast<float4*>(fragments + i * 4) = make_float4(v[0], v[1], v[2], v[3]);
  }
}

extern "C" __global__ void __launch_bounds__(256, 1) convolve(
    const float* __restrict__ lines,
    const float* __restrict__ fragments,
    const float* __restrict__ bias,
    float* __restrict__ out) {
  // A stage of 16 channels: x big and small, [4 channels][place][channel], then weights.
  extern __shared__ __align__(1024) float shared[];
  __shared__ __align__(8) unsigned long long full[3];
  __shared__ float biases[64];
  const int tid = threadIdx.x, lane = tid % 32, warp = tid / 32, g = lane / 4, t = lane % 4, half = warp / 4;
  const int tile = blockIdx.x % FTILES, f0 = tile * 64, q0 = blockIdx.x / FTILES * N_TILE;
  const unsigned base = (unsigned)__cvta_generic_to_shared(shared), barriers = (unsigned)__cvta_generic_to_shared(full);

  if (tid == 0) {
#pragma unroll
    for (int i = 0; i < 3; ++i) asm volatile("mbarrier.init.shared.b64 [%0], 1;" ::"r"(barriers + 8 * i) : "memory");
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  }
  if (tid < 64) biases[tid] = f0 + tid < FILTERS ? bias[f0 + tid] : 0.0f;
  __syncthreads();

  const auto bring = [&](const int s, const int slot) {
    const unsigned barrier = barriers + 8 * slot, to = base + slot * (STAGE * 4);
    asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(barrier), "r"(STAGE * 4) : "memory");
#pragma unroll 1
    for (int k = 0; k < 8; ++k)  // big of four groups, then small
      bulk(to + k * (PX * 16), lines + (((s * 4 + k % 4) * 2 + k / 4) * LINE + q0) * 4, PX * 16, barrier);
    bulk(to + PX * 128, fragments + (tile * STAGES + s) * WS, WS * 4, barrier);
  };
  asm volatile("griddepcontrol.wait;" ::: "memory");
  if (tid == 0) {
    asm volatile("fence.proxy.async;" ::: "memory");
#pragma unroll 1
    for (int s = 0; s < (STAGES < 3 ? STAGES : 3); ++s) bring(s, s);
  }

  // No swizzle: 8 places times 16 bytes together, the next 8 places 128 bytes on, the next 4 channels PX times 16 bytes on.
  const unsigned address = base + half * (PX * 32);
  const unsigned long long described = (unsigned long long)((address & 0x3FFFF) >> 4) | (unsigned long long)PX << 16 | 8ull << 32;
  const float* const mine = shared + 32 * PX + half * (WS / 2) + warp % 4 * 128 + lane * 4;
  const int stages = (CHANNELS - half * 8 + 15) / 16;
  float sum[N_TILE / 2], c[N_TILE / 2];
#pragma unroll
  for (int i = 0; i < N_TILE / 2; ++i) {
    sum[i] = 0.0f;
    c[i] = 0.0f;
    asm volatile("" : "+f"(c[i]));
  }
  unsigned big0[3][4], small0[3][4], big1[3][4], small1[3][4];

  await(barriers, 0);
  take(mine, 0, big0, small0);
  int slot = 0, phase = 0;
#pragma unroll 1
  for (int s = 0; s < stages; ++s) {
    const float* const w = mine + slot * STAGE;
    const unsigned long long b = described + slot * (STAGE / 4);
    multiply(c, big0, small0, b);
    // All have done with the stage before: its place is free.
    __syncthreads();
    if (tid == 0 && s >= 1 && s + 2 < STAGES) bring(s + 2, slot == 0 ? 2 : slot - 1);
    take(w, 1, big1, small1);
    finish(c);
    release(big0, small0);
    promote(sum, c);

    multiply(c, big1, small1, b + PITCH);
    take(w, 2, big0, small0);
    finish(c);
    release(big1, small1);
    promote(sum, c);

    multiply(c, big0, small0, b + 2 * PITCH);
    // After the last stage this waits for and reads the same again, for nothing.
    if (s + 1 < stages) {
      phase ^= slot == 2;
      slot = slot == 2 ? 0 : slot + 1;
    }
    await(barriers + 8 * slot, phase);
    take(mine + slot * STAGE, 0, big1, small1);
    finish(c);
    release(big0, small0);
    promote(sum, c);
#pragma unroll
    for (int i = 0; i < 12; ++i) {
      big0[i / 4][i % 4] = big1[i / 4][i % 4];
      small0[i / 4][i % 4] = small1[i / 4][i % 4];
    }
  }
  if (stages < STAGES) __syncthreads();

  __syncthreads();
#pragma unroll
  for (int j = 0; j < N_TILE / 8; ++j) {
    float* const to = shared + (half * 64 + warp % 4 * 16 + g) * RP + 8 * j + 2 * t;
    *reinterpret_cast<float2*>(to) = make_float2(sum[4 * j], sum[4 * j + 1]);
    *reinterpret_cast<float2*>(to + 8 * RP) = make_float2(sum[4 * j + 2], sum[4 * j + 3]);
  }
  int place[SPANS];
#pragma unroll
  for (int j = 0; j < SPANS; ++j) {
    const int at = lane + 32 * j, q = q0 + at;
    const int row = q / PITCH, col = q % PITCH, image = row / (HEIGHT + 1), y = row % (HEIGHT + 1);
    const bool inside = at < N_TILE && col < WIDTH && y < HEIGHT && image < BATCH;
    place[j] = inside ? ((image * FILTERS + f0) * HEIGHT + y) * WIDTH + col : -1;
  }
  __syncthreads();
#pragma unroll 4
  for (int k = 0; k < 8; ++k) {
    const int f = warp + 8 * k;
    if (f0 + f < FILTERS) {
      const float add = biases[f];
#pragma unroll
      for (int j = 0; j < SPANS; ++j)
        if (place[j] >= 0)
          out[place[j] + f * HW] = add + shared[f * RP + lane + 32 * j] + shared[(64 + f) * RP + lane + 32 * j];
    }
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
    stages, ftiles = ceil(channels, 16), ceil(filters, 64)
    best = None
    for n in range(128, 31, -8):
        px = n + 2 * (width + 1) + 2
        shared = 4 * 3 * (32 * px + 9216)
        if shared + 2048 > kw.device.shared_per_block:
            continue
        tiles = ceil(places, n)
        cost = ceil(ftiles * tiles, kw.device.multiprocessors) * (3000 + stages * (27 * n + 300))
        if best is None or cost < best[0]:
            best = (cost, n, shared, tiles)
    _, n, shared, tiles = best
    line = tiles * n + 2 * (width + 1) + 2
    lines = kw.scratch("lines", stages * 4 * 2 * line * 16)
    fragments = kw.scratch("fragments", ftiles * stages * 9216 * 4)
    definitions = {"BATCH": batch, "CHANNELS": channels, "HEIGHT": height, "WIDTH": width, "FILTERS": filters,
                   "N_TILE": n, "N_FRAGS": n // 8, "TILES": tiles}
    for i in range(5):
        definitions["OPERAND%d" % i] = n // 2 + i
    first = ceil(line, 256) * stages * 4 + ceil(ftiles * stages * 2304, 256)
    return kw.plan(kw.launch("prepare", first, 256, x, weight, lines, fragments),
                   kw.launch("convolve", ftiles * tiles, 256, lines, fragments, bias, out, shared=shared, dependent=True),
                   definitions=definitions)
*/
