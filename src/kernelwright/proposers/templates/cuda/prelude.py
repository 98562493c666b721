"""CUDA that rendered kernels share: vectors of floats, joins, and reductions of a block or of the whole grid."""

from __future__ import annotations

from kernelwright.proposers.templates.cuda.kernels import HEADERS, STORED
from kernelwright.tasks.dtypes import ITEM_BYTES

# Narrow numbers in memory, floats in registers; as many as a vector holds are one load.
HALVES = """\
template <int Width>
struct @NAME@Bits;
template <>
struct @NAME@Bits<1> { using type = @1@; };
template <>
struct @NAME@Bits<2> { using type = @2@; };
template <>
struct @NAME@Bits<4> { using type = @4@; };
template <>
struct @NAME@Bits<8> { using type = @8@; };
template <int Width>
__device__ inline void load(float (&to)[Width], const @TYPE@* from) {
  alignas(16) @TYPE@ few[Width];
  using Whole = typename @NAME@Bits<Width>::type;
  *reinterpret_cast<Whole*>(few) = *reinterpret_cast<const Whole*>(from);
#pragma unroll
  for (int j = 0; j < Width; ++j) to[j] = static_cast<float>(few[j]);
}
template <int Width>
__device__ inline void store(@TYPE@* to, const float (&from)[Width]) {
  alignas(16) @TYPE@ few[Width];
#pragma unroll
  for (int j = 0; j < Width; ++j) few[j] = static_cast<@TYPE@>(from[j]);
  using Whole = typename @NAME@Bits<Width>::type;
  *reinterpret_cast<Whole*>(to) = *reinterpret_cast<const Whole*>(few);
}
template <int Width>
__device__ inline void stream(@TYPE@* to, const float (&from)[Width]) {
  store(to, from);
}
"""
# Vectors of eight: two of four floats, one of eight narrow numbers.
EIGHT = """\
struct __align__(16) float8 {
  float4 low, high;
};
template <>
struct Vector<8> { using type = float8; };
__device__ inline void __stcs(float8* to, const float8& from) {
  __stcs(&to->low, from.low);
  __stcs(&to->high, from.high);
}
"""
_WHOLE = ("unsigned char", "unsigned short", "unsigned", "uint2", "uint4")  # 1, 2, 4, 8, 16 bytes


def halves(dtypes: set[str]) -> tuple[str, ...]:
    """Loads and stores of these narrow numbers, with their headers."""
    if not dtypes:
        return ()
    headers = [HEADERS[dtype] for dtype in sorted(dtypes) if dtype in HEADERS]
    return (*headers, EIGHT, *(_narrow(dtype) for dtype in sorted(dtypes)))


def _narrow(dtype: str) -> str:
    text = HALVES.replace("@NAME@", dtype.title().replace("_", "")).replace("@TYPE@", STORED[dtype])
    for power, width in enumerate((1, 2, 4, 8)):
        text = text.replace(f"@{width}@", _WHOLE[power + ITEM_BYTES[dtype] - 1])
    return text


KERNEL = """\
#define INF __int_as_float(0x7f800000)

// NaN wins, as in torch.
__device__ inline float most(float a, float b) { return a > b || a != a ? a : b; }
__device__ inline float least(float a, float b) { return a < b || a != a ? a : b; }
__device__ inline float plus(float a, float b) { return a + b; }
__device__ inline float sign(float x) { return x > 0.0f ? 1.0f : x < 0.0f ? -1.0f : x; }

template <int Width>
struct Vector;
template <>
struct Vector<1> { using type = float; };
template <>
struct Vector<2> { using type = float2; };
template <>
struct Vector<4> { using type = float4; };

template <int Width>
__device__ inline void load(float (&to)[Width], const float* from) {
  using Whole = typename Vector<Width>::type;
  *reinterpret_cast<Whole*>(to) = *reinterpret_cast<const Whole*>(from);
}
template <int Width>
__device__ inline void store(float* to, const float (&from)[Width]) {
  using Whole = typename Vector<Width>::type;
  *reinterpret_cast<Whole*>(to) = *reinterpret_cast<const Whole*>(from);
}
template <int Width>
__device__ inline void copy(float (&to)[Width], const float (&from)[Width]) {
#pragma unroll
  for (int j = 0; j < Width; ++j) to[j] = from[j];
}
template <int Width>
__device__ inline void stream(float* to, const float (&from)[Width]) {
  using Whole = typename Vector<Width>::type;
  __stcs(reinterpret_cast<Whole*>(to), *reinterpret_cast<const Whole*>(from));
}

// What a thread keeps in shared memory, vector by vector, beside what `Threads` threads keep.
template <int Width, int Threads>
struct Shelf {
  float* first;
  __device__ float (&operator[](int k) const)[Width] {
    return *reinterpret_cast<float (*)[Width]>(first + k * Threads * Width);
  }
};

struct Sum {
  static __device__ float nothing() { return 0.0f; }
  static __device__ float join(float a, float b) { return a + b; }
};
struct Most {
  static __device__ float nothing() { return -INF; }
  static __device__ float join(float a, float b) { return most(a, b); }
};
struct Least {
  static __device__ float nothing() { return INF; }
  static __device__ float join(float a, float b) { return least(a, b); }
};
// The largest value and where it stands; the first of equals, and a NaN before all.
struct __align__(8) Found {
  float value;
  int at;
};
struct First {
  static __device__ Found nothing() { return {-INF, -1}; }
  static __device__ Found join(Found a, Found b) {
    if (b.at < 0) return a;
    if (a.at < 0) return b;
    const bool lost_a = a.value != a.value, lost_b = b.value != b.value;
    if (lost_a != lost_b) return lost_a ? a : b;
    if (lost_a || a.value == b.value) return a.at < b.at ? a : b;
    return a.value > b.value ? a : b;
  }
};
__device__ inline float shuffled(unsigned mask, float v, int with) { return __shfl_xor_sync(mask, v, with); }
__device__ inline Found shuffled(unsigned mask, Found v, int with) {
  return {__shfl_xor_sync(mask, v.value, with), __shfl_xor_sync(mask, v.at, with)};
}

// Over `Lanes` neighbouring lanes of a warp; all of them get the result. `Whole`: all lanes of the warp come here.
template <class Join, int Lanes, bool Whole, class T>
__device__ inline T over_lanes(T v, int lane) {
  const unsigned few = ((1u << Lanes % 32) - 1) << (lane & ~(Lanes - 1));
#pragma unroll
  for (int d = Lanes / 2; d; d /= 2) v = Join::join(v, shuffled(Whole || Lanes == 32 ? 0xffffffffu : few, v, d));
  return v;
}

// Over `Threads` threads of a block, which all come here; `slots` must not be read any more by others.
template <class Join, int Threads, bool Whole = (Threads >= 32), class T>
__device__ inline T over_team(T v, T* slots) {
  constexpr int Lanes = Threads < 32 ? Threads : 32, Warps = Threads < 32 ? 1 : Threads / 32;
  const int lane = threadIdx.x % 32;
  v = over_lanes<Join, Lanes, Whole>(v, lane);
  if (Warps > 1) {
    if (lane == 0) slots[threadIdx.x / 32] = v;
    __syncthreads();
    v = over_lanes<Join, Warps, true>(slots[lane % Warps], lane);
  }
  return v;
}

// The element of a row at a place that all lanes know, from the lane that keeps it: a load would be waited for again.
template <int Width, int Chunks, int Lanes, bool Whole, class Kept>
__device__ inline float picked(const Kept& kept, unsigned at) {
  const int lane = threadIdx.x % 32;
  const unsigned few = ((1u << Lanes % 32) - 1) << (lane & ~(Lanes - 1));
  float found = 0.0f;
#pragma unroll
  for (int k = 0; k < Chunks; ++k) {
#pragma unroll
    for (int j = 0; j < Width; ++j)
      if (at == (k * Lanes + lane % Lanes) * Width + j) found = kept[k][j];
  }
  return __shfl_sync(Whole || Lanes == 32 ? 0xffffffffu : few, found, at / Width % Lanes, Lanes);
}

// Written by another block of this launch, so not from a cache that may be old.
__device__ inline float fetched(const float* from) { return __ldcg(from); }
__device__ inline Found fetched(const Found* from) {
  const int2 raw = __ldcg(reinterpret_cast<const int2*>(from));
  return {__int_as_float(raw.x), raw.y};
}

// A number for blocks of this launch that wait for it: one word, zero before, tells that it is there and what it is.
__device__ inline unsigned long long told(float v) { return 1ull << 32 | __float_as_uint(v); }
__device__ inline unsigned long long told(Found v) {
  return static_cast<unsigned long long>(v.at + 2) << 32 | __float_as_uint(v.value);
}
__device__ inline unsigned long long awaited(const unsigned long long* from) {
  unsigned long long word;
  do {
    word = *reinterpret_cast<const volatile unsigned long long*>(from);
  } while (!(word >> 32));
  return word;
}
template <class T>
__device__ inline T heard(const unsigned long long* from);
template <>
__device__ inline float heard<float>(const unsigned long long* from) {
  return __uint_as_float(static_cast<unsigned>(awaited(from)));
}
template <>
__device__ inline Found heard<Found>(const unsigned long long* from) {
  const unsigned long long word = awaited(from);
  return {__uint_as_float(static_cast<unsigned>(word)), static_cast<int>(word >> 32) - 2};
}
template <class T>
__device__ inline void tell(unsigned long long* to, T v) {
  *reinterpret_cast<volatile unsigned long long*>(to) = told(v);
}

// Whether this block is the last of `count` to come here; it sees what the others wrote, and leaves the count zero.
__device__ inline bool last_to_come(unsigned* arrived, unsigned count) {
  __shared__ bool last;
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) last = atomicAdd(arrived, 1u) == count - 1;
  __syncthreads();
  if (last && threadIdx.x == 0) *arrived = 0;
  __threadfence();
  return last;
}

__device__ inline void wait_for_launch_before() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
__device__ inline void let_next_launch_start() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;");
#endif
}
"""

PLAN = """\
import math

import kw


def ceil(a, b):
    return -(-a // b)


def power(value):
    return 1 << max(0, math.ceil(math.log2(max(1, value))))


def literal(value):
    if isinstance(value, bool) or isinstance(value, int):
        return str(int(value))
    if value != value:
        return "__int_as_float(0x7fc00000)"
    if abs(value) == math.inf:
        return "INF" if value > 0 else "(-INF)"
    return f"{value!r}f" if "e" in repr(value) or "." in repr(value) else f"{value!r}.0f"


def widest(wanted, size):
    while size % wanted:
        wanted //= 2
    return wanted


def kept(arrays, cols, width, team, parts, registers, shared, teams=1):
    # Of arrays with the share of a row that a thread has: how many lie in shared memory, in how many bytes.
    chunks = ceil(cols, team * width * parts)
    outside = max(0, arrays - registers // (chunks * width))
    size = 4 * outside * team * teams * chunks * width
    return (outside, size) if registers and size <= shared else None
"""

_LOGARITHM = "    return 1 << max(0, math.ceil(math.log2(max(1, value))))\n"
assert _LOGARITHM in PLAN
DYNAMIC_PLAN = PLAN.replace(_LOGARITHM, "    return 1 << (max(1, value) - 1).bit_length()\n").replace(
    "import math\n", "import math\nfrom operator import index as settled  # a number that has to be known\n"
)
DYNAMIC_PLAN += """

def unrolled(count, most):
    # At least `count`, at most `most`: two numbers between powers of two, so that one build serves many sizes.
    whole = settled(power(count))
    return min(most, 3 * whole // 4 if whole >= 4 and count <= 3 * whole // 4 else whole)
"""
