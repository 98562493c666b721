// A warp has a unit's STRIP weights, PARTS lanes sharing the rows, or STRIP columns of PARTS rows of grad_x, by the same
// straight code; ACROSS lanes hold multipliers for each other. A scout warp runs ahead without loads and fetches the code.
constexpr int PARTS = 32 / ACROSS, STRIP = ACROSS * COLUMNS, PIECES = COLUMNS / VECTOR, APART = ACROSS * VECTOR;
constexpr int STRIPS = (FEATURES + STRIP - 1) / STRIP, MOST = (ROWS + PARTS - 1) / PARTS;
constexpr int DEPTH = UNITS > MOST ? UNITS : MOST, SURE = UNITS < ROWS / PARTS ? UNITS : ROWS / PARTS;
constexpr int HELD = (DEPTH + ACROSS - 1) / ACROSS;
constexpr unsigned WORK = STRIPS * (UNITS + MOST);
static_assert(COLUMNS <= PARTS, "lanes that share the rows end with one column each");

// Loads where `on`, and else gives zero or, without `Zero`, anything: then nobody uses it.
template <bool Zero>
__device__ __forceinline__ void take(float& to, const float* from, const unsigned on) {
  if (Zero)
    asm volatile("{\n.reg .pred p;\nsetp.ne.u32 p, %2, 0;\nmov.f32 %0, 0f00000000;\n@p ld.global.nc.f32 %0, [%1];\n}"
                 : "=f"(to) : "l"(from), "r"(on));
  else
    asm volatile("{\n.reg .pred p;\nsetp.ne.u32 p, %2, 0;\n@p ld.global.nc.f32 %0, [%1];\n}"
                 : "=f"(to) : "l"(from), "r"(on));
}
template <bool Zero>
__device__ __forceinline__ void take_vector(float* to, const float* from, const unsigned on) {
#if VECTOR == 4
  if (Zero) to[0] = to[1] = to[2] = to[3] = 0.0f;
  if (Zero)
    asm volatile("{\n.reg .pred p;\nsetp.ne.u32 p, %5, 0;\n@p ld.global.nc.v4.f32 {%0, %1, %2, %3}, [%4];\n}"
                 : "+f"(to[0]), "+f"(to[1]), "+f"(to[2]), "+f"(to[3]) : "l"(from), "r"(on));
  else
    asm volatile("{\n.reg .pred p;\nsetp.ne.u32 p, %5, 0;\n@p ld.global.nc.v4.f32 {%0, %1, %2, %3}, [%4];\n}"
                 : "=f"(to[0]), "=f"(to[1]), "=f"(to[2]), "=f"(to[3]) : "l"(from), "r"(on));
#elif VECTOR == 2
  if (Zero) to[0] = to[1] = 0.0f;
  if (Zero)
    asm volatile("{\n.reg .pred p;\nsetp.ne.u32 p, %3, 0;\n@p ld.global.nc.v2.f32 {%0, %1}, [%2];\n}"
                 : "+f"(to[0]), "+f"(to[1]) : "l"(from), "r"(on));
  else
    asm volatile("{\n.reg .pred p;\nsetp.ne.u32 p, %3, 0;\n@p ld.global.nc.v2.f32 {%0, %1}, [%2];\n}"
                 : "=f"(to[0]), "=f"(to[1]) : "l"(from), "r"(on));
#else
  take<Zero>(to[0], from, on);
#endif
}

extern "C" __global__ void __launch_bounds__(32 * (WARPS + SCOUT)) backward(
    const float* __restrict__ grad_out, const float* __restrict__ weight, const float* __restrict__ x,
    float* __restrict__ grad_x, float* __restrict__ grad_weight, float* __restrict__ grad_bias) {
  const unsigned warp = threadIdx.x / 32;
  const bool real = !SCOUT || warp < WARPS;
  const unsigned job = blockIdx.x * WARPS + (real ? warp : 0u);
  if (WARPS > 1 && job >= WORK) return;
  const unsigned lane = threadIdx.x % 32, part = lane / ACROSS, line = job / STRIPS, strip = job % STRIPS;
  const unsigned first = strip * STRIP + lane % ACROSS * VECTOR;  // further vectors of a lane: APART
  const bool turned = line < UNITS;                               // grad_weight
  const unsigned start = part * ROWS / PARTS, row = (line - UNITS) * PARTS + part, safe = min(row, ROWS - 1u);
  const unsigned own = turned ? (part + 1) * ROWS / PARTS - start : UNITS, count = real ? own : 0u;
  const unsigned step = turned ? UNITS : 1;
  const float* const left = grad_out + (turned ? start * UNITS + line : safe * UNITS);
  const float* const right = turned ? x + start * FEATURES : weight;
  float* const out = turned ? grad_weight + line * FEATURES : grad_x + safe * FEATURES;
  unsigned from[PIECES];
#pragma unroll
  for (int p = 0; p < PIECES; ++p) from[p] = min(first + p * APART, unsigned(FEATURES - VECTOR));

  float held[HELD];
  alignas(16) float r[DEPTH][COLUMNS];
#pragma unroll
  for (int i = 0; i < HELD; ++i) {
    const unsigned k = i * ACROSS + lane % ACROSS;
    take<true>(held[i], left + k * step, k < count);
  }
#pragma unroll
  for (int k = 0; k < DEPTH; ++k)
#pragma unroll
    for (int p = 0; p < PIECES; ++p) {
      if (k < SURE)
        take_vector<false>(&r[k][p * VECTOR], right + k * FEATURES + from[p], real);
      else
        take_vector<true>(&r[k][p * VECTOR], right + k * FEATURES + from[p], k < count);
    }
#if WARM
  if (!SCOUT || !real) asm volatile("prefetch.global.L2 [%0];" ::"l"(out + from[0]));
#endif
  alignas(16) float sum[COLUMNS] = {};
#pragma unroll
  for (int k = 0; k < DEPTH; ++k) {
    const float l = __shfl_sync(0xffffffffu, held[k / ACROSS], k % ACROSS, ACROSS);
#pragma unroll
    for (int j = 0; j < COLUMNS; ++j) sum[j] += l * r[k][j];
  }
  if (!turned) {
#pragma unroll
    for (int p = 0; p < PIECES; ++p)
      if (real && row < ROWS && first + p * APART < FEATURES) {
        float* const to = out + first + p * APART;
#if VECTOR == 4
        *reinterpret_cast<float4*>(to) = make_float4(sum[0], sum[1], sum[2], sum[3]);
#elif VECTOR == 2
        *reinterpret_cast<float2*>(to) = make_float2(sum[0], sum[1]);
#else
        *to = sum[p];
#endif
      }
    return;
  }
  // Lanes swap halves of their columns as long as they have several, then add up; the bias is the sum of what is held.
  float total = held[0];
#pragma unroll
  for (int i = 1; i < HELD; ++i) total += held[i];
  unsigned at = 0;
#pragma unroll
  for (int i = 0; i < 5; ++i) {
    const int far = 16 >> i, half = COLUMNS >> (i + 1);
    total += __shfl_xor_sync(0xffffffffu, total, far);
    if (far < ACROSS) continue;
    if (half > 0) {
      const bool up = (lane & far) != 0;
#pragma unroll
      for (int j = 0; j < half; ++j) {
        const float kept = up ? sum[j + half] : sum[j], given = up ? sum[j] : sum[j + half];
        sum[j] = kept + __shfl_xor_sync(0xffffffffu, given, far);
      }
      at += up ? half : 0;
    } else {
      sum[0] += __shfl_xor_sync(0xffffffffu, sum[0], far);
    }
  }
  const unsigned col = first + at / VECTOR * APART + at % VECTOR;
  if (real && (lane & (32 / COLUMNS - ACROSS)) == 0 && col < FEATURES) out[col] = sum[0];
  if (real && strip == 0 && lane == 0) grad_bias[line] = total;
}

/* plan.py
import kw

# tunable: SCOUT = 1, 0
# tunable: ACROSS = 4, 8
# tunable: WARM = 1, 0

def ceil(a, b):
    return -(-a // b)

def plan(x, weight, bias, grad_out, grad_x, grad_weight, grad_bias):
    rows, features, units = x.size(0), x.size(1), weight.size(0)
    vector = 4 if features % 4 == 0 else 2 if features % 2 == 0 else 1
    columns = max(2, vector)
    work = ceil(features, ACROSS * columns) * (units + ceil(rows, 32 // ACROSS))
    warps = 1
    while warps < 4 and work > 2 * warps * kw.device.multiprocessors:
        warps *= 2
    return kw.plan(
        kw.launch("backward", ceil(work, warps), 32 * (warps + SCOUT),
                  grad_out, weight, x, grad_x, grad_weight, grad_bias),
        definitions={"ROWS": rows, "FEATURES": features, "UNITS": units, "VECTOR": vector, "COLUMNS": columns,
                     "ACROSS": ACROSS, "WARPS": warps, "SCOUT": SCOUT, "WARM": WARM})
*/
