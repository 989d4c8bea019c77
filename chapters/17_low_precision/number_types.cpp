#include "number_types.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace ch17 {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

struct Fields {
  int mantissa_bits, smallest_exponent;  // smallest exponent of a normal number
  float largest;
};
constexpr Fields kE5m2{2, -14, kLargestE5m2}, kE2m1{1, 0, kLargestE2m1};

// Returns a code without its sign. Codes ascend with the numbers, so rounding up past the last
// mantissa gives the next exponent.
int code_of(const Fields& f, float magnitude) {
  const float x = std::min(magnitude, f.largest);
  const int exponent = x == 0 ? f.smallest_exponent : std::max(std::ilogb(x), f.smallest_exponent);
  const int mantissa = static_cast<int>(std::nearbyint(std::ldexp(x, f.mantissa_bits - exponent)));
  return ((exponent - f.smallest_exponent) << f.mantissa_bits) + mantissa;
}

float magnitude_of(const Fields& f, int code) {
  const int exponent = code >> f.mantissa_bits, one = 1 << f.mantissa_bits;
  const int mantissa = code % one + (exponent == 0 ? 0 : one);
  return std::ldexp(static_cast<float>(mantissa),
                    f.smallest_exponent + std::max(exponent - 1, 0) - f.mantissa_bits);
}

// Returns max |x|, or NaN if a value is not finite.
float largest_finite(std::span<const float> values) {
  float largest = 0;
  for (const float value : values) {
    if (!std::isfinite(value)) return kNan;
    largest = std::max(largest, std::abs(value));
  }
  return largest;
}

template <class Round>
void for_blocks(std::span<float> row, size_t size, Round round) {
  for (size_t begin = 0; begin < row.size(); begin += size)
    round(row.subspan(begin, std::min(size, row.size() - begin)));
}

}  // namespace

float to_float(e5m2 value) {
  const int code = value.bits & 0x7f;
  float magnitude = code > 0x7c ? kNan : code == 0x7c ? HUGE_VALF : magnitude_of(kE5m2, code);
  return value.bits & 0x80 ? -magnitude : magnitude;
}

float to_float(e2m1 value) {
  const float magnitude = magnitude_of(kE2m1, value.bits & 7);
  return value.bits & 8 ? -magnitude : magnitude;
}

float to_float(e8m0 value) { return value.bits == 255 ? kNan : std::ldexp(1.0f, value.bits - 127); }

e5m2 to_e5m2(float value) {
  const int sign = std::signbit(value) ? 0x80 : 0;
  if (std::isnan(value)) return {static_cast<uint8_t>(sign | 0x7f)};
  return {static_cast<uint8_t>(sign | code_of(kE5m2, std::abs(value)))};
}

e2m1 to_e2m1(float value) {
  if (std::isnan(value)) return {7};
  return {static_cast<uint8_t>((std::signbit(value) ? 8 : 0) | code_of(kE2m1, std::abs(value)))};
}

e8m0 to_e8m0(float value) {
  if (!(value >= 0)) return {255};
  if (value == 0) return {0};
  if (std::isinf(value)) return {254};
  return {static_cast<uint8_t>(std::max(std::ilogb(value) + 127, 0))};
}

void round_mxfp8(std::span<float> row) {
  for_blocks(row, kMxfp8Block, [](std::span<float> block) {
    // 2^8 is the largest power of two in e4m3.
    const float scale = to_float(to_e8m0(std::ldexp(largest_finite(block), -8)));
    for (float& x : block) x = fa::to_float(fa::to_e4m3(x / scale)) * scale;
  });
}

void round_nvfp4(std::span<float> row, float tensor_scale) {
  for_blocks(row, kNvfp4Block, [&](std::span<float> block) {
    const float wanted = largest_finite(block) / kLargestE2m1 / tensor_scale;
    if (wanted == 0 || tensor_scale == 0) {
      std::fill(block.begin(), block.end(), 0.0f);
      return;
    }
    const float scale = fa::to_float(fa::to_e4m3(wanted)) * tensor_scale;
    // If a scale was rounded to zero, its whole block is zero.
    for (float& x : block) x = scale == 0 ? 0 : to_float(to_e2m1(x / scale)) * scale;
  });
}

float nvfp4_tensor_scale(float largest) { return largest / (kLargestE2m1 * fa::kLargestE4m3); }

}  // namespace ch17
