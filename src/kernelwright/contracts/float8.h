// 8-bit floats as their bits, converted to and from float: for `cpp` candidates, and for the emulator of CUDA.
#pragma once
#include <cstdint>
#include <cstring>

namespace kw {

// `Mantissa` bits of mantissa and the others of exponent. A `Finite` format has no infinities and one NaN of either
// sign, so that its largest number is one step below.
template <int Mantissa, bool Finite>
struct Float8 {
  static constexpr int kBias = (1 << (6 - Mantissa)) - 1, kShift = 23 - Mantissa;
  static constexpr std::uint32_t kInfinity = ((1u << (7 - Mantissa)) - 1) << Mantissa;
  static constexpr std::uint32_t kMost = Finite ? 0x7eu : kInfinity - 1;

  static float of_bits(std::uint32_t word) {
    float value;
    std::memcpy(&value, &word, 4);
    return value;
  }
  static std::uint32_t bits_of(float value) {
    std::uint32_t word;
    std::memcpy(&word, &value, 4);
    return word;
  }
  // Exact: a power of two brings the exponent home, that of a subnormal number too.
  static float widened(std::uint8_t bits) {
    const std::uint32_t code = bits & 0x7fu;
    const float size = of_bits(code << kShift) * of_bits(static_cast<std::uint32_t>(254 - kBias) << 23);
    std::uint32_t word = bits_of(size);
    if (Finite ? code == 0x7fu : code > kInfinity) word = 0x7fc00000u;
    if (!Finite && code == kInfinity) word = 0x7f800000u;
    return of_bits(word | static_cast<std::uint32_t>(bits & 0x80u) << 24);
  }
  // To the nearest, ties to even. What is too large becomes the largest number if `saturates`, else what the format has
  // for it: an infinity, or NaN.
  static std::uint8_t narrowed(float value, bool saturates) {
    const std::uint32_t word = bits_of(value), sign = word >> 24 & 0x80u, rest = word & 0x7fffffffu;
    if (rest > 0x7f800000u) return static_cast<std::uint8_t>(sign | 0x7fu);
    std::uint32_t code;
    if (rest < static_cast<std::uint32_t>(128 - kBias) << 23) {  // subnormal: float's own rounding at the right place
      const std::uint32_t place = static_cast<std::uint32_t>(128 - kBias + kShift) << 23;
      code = bits_of(of_bits(rest) + of_bits(place)) - place;
    } else {
      const std::uint32_t odd = rest >> kShift & 1u;
      code = (rest + (1u << (kShift - 1)) - 1 + odd - (static_cast<std::uint32_t>(127 - kBias) << 23)) >> kShift;
    }
    if (code > kMost) code = saturates ? kMost : Finite ? 0x7fu : kInfinity;
    return static_cast<std::uint8_t>(sign | code);
  }
};
using E4M3 = Float8<3, true>;
using E5M2 = Float8<2, false>;

}  // namespace kw
