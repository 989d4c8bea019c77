#pragma once
// 16-bit floating-point types as plain bits, with conversions that round to nearest even. The
// layouts are those of CUDA's __nv_bfloat16 and __half, so a kernel can take these pointers.

#include <bit>
#include <cmath>
#include <cstdint>

namespace fa {

struct bf16 {  // 1 sign, 8 exponent, 7 mantissa bits, with fp32's range, two to three decimal
               // digits
  uint16_t bits;
};

struct fp16 {  // 1 sign, 5 exponent, 10 mantissa bits, largest finite value 65504
  uint16_t bits;
};

// Rounds to nearest even. NaN is handled separately, because rounding its bits as a number could
// carry into infinity.
constexpr bf16 to_bf16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return {static_cast<uint16_t>((bits >> 16) | 0x0040u)};
  const uint32_t tie_to_even = (bits >> 16) & 1u;
  return {static_cast<uint16_t>((bits + 0x7fffu + tie_to_even) >> 16)};
}

constexpr float to_float(bf16 value) {
  return std::bit_cast<float>(static_cast<uint32_t>(value.bits) << 16);
}

constexpr fp16 to_fp16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint16_t sign = static_cast<uint16_t>((bits >> 16) & 0x8000u);
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return {static_cast<uint16_t>(sign | 0x7e00u)};   // NaN
  if (magnitude >= 0x477ff000u) return {static_cast<uint16_t>(sign | 0x7c00u)};  // ≥ 65520: Inf
  if (magnitude < 0x33000001u) return {sign};      // ≤ 2^-25: ties to even zero
  const bool subnormal = magnitude < 0x38800000u;  // < 2^-14
  const uint32_t exponent = magnitude >> 23;
  const uint32_t mantissa = (magnitude & 0x007fffffu) | 0x00800000u;
  const uint32_t shift = subnormal ? 126u - exponent : 13u;  // bits that do not fit
  const uint32_t kept = mantissa >> shift;
  const uint32_t lost = mantissa & ((1u << shift) - 1u);
  const uint32_t half = 1u << (shift - 1u);
  const uint32_t round_up = (lost > half || (lost == half && (kept & 1u))) ? 1u : 0u;
  // For a normal number `kept` still holds the leading 1, which adds one to the exponent field.
  const uint32_t base = subnormal ? 0u : (exponent - 113u) << 10;
  return {static_cast<uint16_t>(sign | (base + kept + round_up))};
}

constexpr float to_float(fp16 value) {
  const uint32_t sign = static_cast<uint32_t>(value.bits & 0x8000u) << 16;
  const uint32_t exponent = (value.bits >> 10) & 0x1fu;
  const uint32_t mantissa = value.bits & 0x3ffu;
  if (exponent == 0x1fu) return std::bit_cast<float>(sign | 0x7f800000u | (mantissa << 13));
  if (exponent != 0)
    return std::bit_cast<float>(sign | ((exponent + 112u) << 23) | (mantissa << 13));
  const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;  // zero or subnormal, exact
  return sign ? -magnitude : magnitude;
}

constexpr float to_float(float value) { return value; }

template <class T>
constexpr T from_float(float value);
template <>
constexpr float from_float<float>(float value) {
  return value;
}
template <>
constexpr bf16 from_float<bf16>(float value) {
  return to_bf16(value);
}
template <>
constexpr fp16 from_float<fp16>(float value) {
  return to_fp16(value);
}

// The element types in which a program computes.
enum class Dtype { f32, f16, bf16 };

const char* name(Dtype dtype);

// Returns the number of `dtype` that is nearest to `value`.
float round_to(Dtype dtype, float value);

// Returns the distance from |value| to the next number of `dtype` above it, which is one unit in
// the last place.
double unit_in_last_place(Dtype dtype, double value);

}  // namespace fa
