// What a `cpp` candidate includes: typed, strided views of the tensors that the judge passes.
#pragma once
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "float8.h"

namespace kw {

// bfloat16 as the upper half of a float; converts both ways, rounding to nearest even.
struct bfloat16 {
  std::uint16_t bits;
  bfloat16() = default;
  bfloat16(float value) {
    std::uint32_t word;
    std::memcpy(&word, &value, 4);
    if ((word & 0x7fffffffu) > 0x7f800000u) {
      bits = static_cast<std::uint16_t>((word >> 16) | 0x0040u);  // a NaN stays a NaN
    } else {
      bits = static_cast<std::uint16_t>((word + 0x7fffu + ((word >> 16) & 1u)) >> 16);
    }
  }
  operator float() const {
    std::uint32_t word = static_cast<std::uint32_t>(bits) << 16;
    float value;
    std::memcpy(&value, &word, 4);
    return value;
  }
};

// 8-bit floats, as torch rounds to them: e4m3fn has no infinities, and what is too large becomes its largest number.
struct float8_e4m3fn {
  std::uint8_t bits;
  float8_e4m3fn() = default;
  float8_e4m3fn(float value) : bits(E4M3::narrowed(value, true)) {}
  operator float() const { return E4M3::widened(bits); }
};
struct float8_e5m2 {
  std::uint8_t bits;
  float8_e5m2() = default;
  float8_e5m2(float value) : bits(E5M2::narrowed(value, false)) {}
  operator float() const { return E5M2::widened(bits); }
};

#if defined(__FLT16_MAX__)
using float16 = _Float16;
#endif

// A view of a tensor with `Rank` dimensions. Strides count elements. `const T` marks a read-only tensor.
// The data starts on a 256-byte boundary; up to the next 256-byte boundary after the last element may be
// read (never written) and holds no meaningful value.
template <class T, int Rank>
struct Tensor {
  T* data;
  std::int64_t sizes[Rank > 0 ? Rank : 1];
  std::int64_t strides[Rank > 0 ? Rank : 1];

  std::int64_t size(int dim) const { return sizes[dim < 0 ? dim + Rank : dim]; }
  std::int64_t stride(int dim) const { return strides[dim < 0 ? dim + Rank : dim]; }

  std::int64_t numel() const {
    std::int64_t count = 1;
    for (int dim = 0; dim < Rank; ++dim) count *= sizes[dim];
    return count;
  }

  bool contiguous() const {
    std::int64_t expected = 1;
    for (int dim = Rank - 1; dim >= 0; --dim) {
      if (sizes[dim] != 1 && strides[dim] != expected) return false;
      expected *= sizes[dim];
    }
    return true;
  }

  template <class... Index>
  T& operator()(Index... index) const {
    static_assert(sizeof...(Index) == Rank, "one index for each dimension");
    const std::int64_t at[] = {static_cast<std::int64_t>(index)..., 0};
    std::int64_t offset = 0;
    for (int dim = 0; dim < Rank; ++dim) offset += at[dim] * strides[dim];
    return data[offset];
  }
};

}  // namespace kw
