#pragma once
// e4m3, the 8-bit floating-point format of FP8 attention, as plain bits: 1 sign, 4 exponent and 3
// mantissa bits, bias 7. The largest value is 448. There is no Inf, and of 256 codes only 0x7f and
// 0xff are NaN. The format is from the OCP 8-bit Floating Point Specification 1.0. The layout is
// that of CUDA's __nv_fp8_e4m3.

#include <bit>
#include <cstdint>
#include <limits>

#include "common/half.hpp"

namespace fa {

struct e4m3 {
  uint8_t bits;
};

inline constexpr float kLargestE4m3 = 448;

constexpr float to_float(e4m3 value) {
  const int exponent = (value.bits >> 3) & 0xf, mantissa = value.bits & 7;
  float magnitude = static_cast<float>(mantissa) * 0x1p-9f;  // zero or subnormal
  if (exponent == 15 && mantissa == 7) {
    magnitude = std::numeric_limits<float>::quiet_NaN();
  } else if (exponent != 0) {
    magnitude = std::bit_cast<float>(static_cast<uint32_t>(exponent + 120) << 23 |
                                     static_cast<uint32_t>(mantissa) << 20);
  }
  return value.bits & 0x80 ? -magnitude : magnitude;
}

// Rounds to nearest, ties to even. Magnitudes above 448, including Inf, become 448, as with CUDA's
// satfinite. A NaN stays a NaN.
constexpr e4m3 to_e4m3(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = (bits >> 24) & 0x80u;
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return {static_cast<uint8_t>(sign | 0x7fu)};
  if (magnitude >= 0x43e00000u) return {static_cast<uint8_t>(sign | 0x7eu)};  // >= 448
  if (magnitude <= 0x3a800000u) return {static_cast<uint8_t>(sign)};  // <= 2^-10: ties to even zero
  const bool subnormal = magnitude < 0x3c800000u;                     // < 2^-6
  const uint32_t exponent = magnitude >> 23;
  const uint32_t mantissa = (magnitude & 0x007fffffu) | 0x00800000u;
  const uint32_t shift = subnormal ? 141u - exponent : 20u;  // bits that do not fit
  const uint32_t kept = mantissa >> shift;
  const uint32_t lost = mantissa & ((1u << shift) - 1u);
  const uint32_t half = 1u << (shift - 1u);
  const uint32_t round_up = (lost > half || (lost == half && (kept & 1u))) ? 1u : 0u;
  // For a normal number `kept` still holds the leading 1, which adds one to the exponent field.
  const uint32_t base = subnormal ? 0u : (exponent - 121u) << 3;
  return {static_cast<uint8_t>(sign | (base + kept + round_up))};
}

template <>
constexpr e4m3 from_float<e4m3>(float value) {
  return to_e4m3(value);
}

}  // namespace fa
