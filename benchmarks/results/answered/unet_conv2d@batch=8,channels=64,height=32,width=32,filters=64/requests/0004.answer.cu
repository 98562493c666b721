// 3x3 convolution as an implicit GEMM (filters times pixels) on tensor cores: three TF32 products for each float32 one, promoted
// every 24 deep. Sixteen warps: four parts of the output tile times four groups of 8 channels, joined in shared memory at the end.
constexpr int HW = HEIGHT * WIDTH, PIXELS = BATCH * HW, PITCH = WIDTH + 1;
constexpr int FT = 128 / WARPS_N, PT = 8 * FRAGS * WARPS_N, FTILES = (FILTERS + FT - 1) / FT;
// A filter's 72 weights of 8 channels, and room for 3 more before them: 16-byte copies begin at a multiple of four.
constexpr int WK = 76, VECTORS = 19;
constexpr int STAGE = 4 * FT * WK + 32 * X_PITCH, STAGES = (CHANNELS + 31) / 32, RP = PT + 8;

__device__ __forceinline__ void copy16(float* to, const float* from, int bytes) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"((unsigned)__cvta_generic_to_shared(to)), "l"(from),
               "r"(bytes) : "memory");
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
__device__ __forceinline__ void mma(float (&c)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
  asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
// Where a pixel stands when a zero follows each row and a row of zeros each image: then all taps are constant distances.
__device__ __forceinline__ int place(int p) {
  const int image = p / HW, rest = p % HW;
  return (image * (HEIGHT + 1) + rest / WIDTH) * PITCH + rest % WIDTH;
}

extern "C" __global__ void __launch_bounds__(512, 1) convolve(
    const float* __restrict__ x,
    const float* __restrict__ weight,
    const float* __restrict__ bias,
    float* __restrict__ out) {
  extern __shared__ __align__(128) float shared[];
  const int tid = threadIdx.x, lane = tid % 32, warp = tid / 32, g = lane / 4, t = lane % 4;
  const int group = warp / 4, wm = warp % 4 / WARPS_N, wn = warp % WARPS_N;
  const int f0 = blockIdx.x % FTILES * FT, p0 = blockIdx.x / FTILES * PT;
  const int start = place(p0) - PITCH - 1;

  const auto load = [&](const int s) {
    float* const w = shared + s % 2 * STAGE;
    float* const xs = w + 4 * FT * WK;
    for (int v = tid; v < 4 * FT * VECTORS; v += 512) {
      const int row = v / VECTORS, part = v % VECTORS, c = s * 32 + row / FT * 8;
      if (c < CHANNELS) {
        const int at = (((f0 + row % FT) * CHANNELS + c) * 9 & ~3) + part * 4, left = FILTERS * CHANNELS * 9 - at;
        copy16(w + row * WK + part * 4, weight + (left > 0 ? at : 0), left > 4 ? 16 : left > 0 ? left * 4 : 0);
      }
    }
    for (int j = tid % 64; j < X_SPAN; j += 64) {
      const int q = start + j, row = q / PITCH, col = q % PITCH, image = row / (HEIGHT + 1), y = row % (HEIGHT + 1);
      const bool inside = q >= 0 && col < WIDTH && y < HEIGHT && image < BATCH;
      const float* const from = x + (inside ? (image * CHANNELS * HEIGHT + y) * WIDTH + col : 0);
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        const int c = tid / 64 + k * 8;
        if (s * 32 + k * 8 < CHANNELS) {
          const bool there = inside && s * 32 + c < CHANNELS;
          copy4(xs + c * X_PITCH + j, there ? from + (s * 32 + c) * HW : x, there);
        }
      }
    }
    asm volatile("cp.async.commit_group;" ::: "memory");
  };

  int at[FRAGS];
#pragma unroll
  for (int j = 0; j < FRAGS; ++j)
    at[j] = (group * 8 + t) * X_PITCH + place(min(p0 + (wn * FRAGS + j) * 8 + g, PIXELS - 1)) - place(p0);
  const int mine = (group * FT + wm * 32 + g) * WK + (g * CHANNELS & 3) + t * 9;
  float sum[2][FRAGS][4] = {};

  load(0);
  for (int s = 0; s < STAGES; ++s) {
    if (s + 1 < STAGES) {
      load(s + 1);
      asm volatile("cp.async.wait_group 1;" ::: "memory");
    } else {
      asm volatile("cp.async.wait_group 0;" ::: "memory");
    }
    __syncthreads();
    if (s * 32 + group * 8 < CHANNELS) {
      const float* const w = shared + s % 2 * STAGE + mine;
      const float* const xs = shared + s % 2 * STAGE + 4 * FT * WK;
#pragma unroll
      for (int ky = 0; ky < 3; ++ky) {
        float part[2][FRAGS][4] = {};
#pragma unroll
        for (int kx = 0; kx < 3; ++kx) {
          unsigned ab[2][4], as[2][4], bb[FRAGS][2], bs[FRAGS][2];
#pragma unroll
          for (int i = 0; i < 2; ++i)
#pragma unroll
            for (int e = 0; e < 4; ++e)
              split(w[(i * 16 + e % 2 * 8) * WK + e / 2 * 36 + ky * 3 + kx], ab[i][e], as[i][e]);
#pragma unroll
          for (int j = 0; j < FRAGS; ++j)
#pragma unroll
            for (int e = 0; e < 2; ++e) split(xs[at[j] + e * 4 * X_PITCH + ky * PITCH + kx], bb[j][e], bs[j][e]);
#pragma unroll
          for (int j = 0; j < FRAGS; ++j)
#pragma unroll
            for (int i = 0; i < 2; ++i) mma(part[i][j], as[i], bb[j]);
#pragma unroll
          for (int j = 0; j < FRAGS; ++j)
#pragma unroll
            for (int i = 0; i < 2; ++i) mma(part[i][j], ab[i], bs[j]);
#pragma unroll
          for (int j = 0; j < FRAGS; ++j)
#pragma unroll
            for (int i = 0; i < 2; ++i) mma(part[i][j], ab[i], bb[j]);
        }
#pragma unroll
        for (int i = 0; i < 2; ++i)
#pragma unroll
          for (int j = 0; j < FRAGS; ++j)
#pragma unroll
            for (int e = 0; e < 4; ++e) sum[i][j][e] += part[i][j][e];
      }
    }
    __syncthreads();
  }

#pragma unroll
  for (int i = 0; i < 2; ++i)
#pragma unroll
    for (int j = 0; j < FRAGS; ++j) {
      float* const to = shared + (group * FT + wm * 32 + i * 16 + g) * RP + (wn * FRAGS + j) * 8 + 2 * t;
      *reinterpret_cast<float2*>(to) = make_float2(sum[i][j][0], sum[i][j][1]);
      *reinterpret_cast<float2*>(to + 8 * RP) = make_float2(sum[i][j][2], sum[i][j][3]);
    }
  __syncthreads();
#pragma unroll 4
  for (int k = tid; k < FT * PT; k += 512) {
    const int f = k / PT, p = p0 + k % PT;
    if (f0 + f < FILTERS && p < PIXELS) {
      float v = bias[f0 + f];
#pragma unroll
      for (int q = 0; q < 4; ++q) v += shared[(q * FT + f) * RP + k % PT];
      out[(p / HW * FILTERS + f0 + f) * HW + p % HW] = v;
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
    pixels = batch * height * width

    def place(p):
        image, rest = divmod(p, height * width)
        return (image * (height + 1) + rest // width) * (width + 1) + rest % width

    best = None
    for across in (2, 4):
        for frags in (4, 3, 2, 1):
            ft, pt = 128 // across, 8 * frags * across
            span = 2 * (width + 1) + 3 + max(place(min(p + pt, pixels) - 1) - place(p) for p in range(0, pixels, pt))
            pitch = span + (8 - span) % 32
            shared = 4 * max(2 * (4 * ft * 76 + 32 * pitch), 4 * ft * (pt + 8))
            if shared > kw.device.shared_per_block:
                continue
            blocks = ceil(filters, ft) * ceil(pixels, pt)
            products, bytes_ = ft * pt * 216 / 500, ft * 304 + span * 32
            work = ceil(channels, 8) * (max(products, bytes_ / 20) + bytes_ / 100)
            cost = ceil(blocks, kw.device.multiprocessors) * (2500 + work)
            if best is None or cost < best[0]:
                best = (cost, across, frags, span, pitch, shared, blocks)
    _, across, frags, span, pitch, shared, blocks = best
    definitions = {"BATCH": batch, "CHANNELS": channels, "HEIGHT": height, "WIDTH": width, "FILTERS": filters,
                   "WARPS_N": across, "FRAGS": frags, "X_SPAN": span, "X_PITCH": pitch}
    return kw.plan(kw.launch("convolve", blocks, 512, x, weight, bias, out, shared=shared), definitions=definitions)
*/
