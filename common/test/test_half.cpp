#include <doctest/doctest.h>

#include <cmath>
#include <initializer_list>
#include <limits>

#include "common/half.hpp"

using namespace fa;

namespace {

// Returns the value of the bits of a 16-bit format, computed from the definition instead of by
// shifting.
double meaning(uint16_t bits, int exponent_bits, int mantissa_bits) {
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const int exponent = (bits >> mantissa_bits) & ((1 << exponent_bits) - 1);
  const int mantissa = bits & ((1 << mantissa_bits) - 1);
  double magnitude;
  if (exponent == (1 << exponent_bits) - 1) {
    magnitude = mantissa ? std::numeric_limits<double>::quiet_NaN()
                         : std::numeric_limits<double>::infinity();
  } else if (exponent == 0) {
    magnitude = std::ldexp(mantissa, 1 - bias - mantissa_bits);
  } else {
    magnitude = std::ldexp(mantissa + (1 << mantissa_bits), exponent - bias - mantissa_bits);
  }
  return bits & 0x8000 ? -magnitude : magnitude;
}

// Rounding is monotonic, so it is correct everywhere if it is correct at every boundary: the
// midpoint of two neighbours rounds to the even one, and the next fp32 number on either side to the
// nearer one.
template <class Half>
void check_every_boundary(Half (*round)(float), int exponent_bits, int mantissa_bits) {
  const uint16_t infinity = static_cast<uint16_t>(((1 << exponent_bits) - 1) << mantissa_bits);
  int wrong = 0;
  for (int sign = 0; sign < 2; ++sign) {
    const uint16_t sign_bit = static_cast<uint16_t>(sign << 15);
    for (uint16_t bits = 0; bits < infinity; ++bits) {
      const uint16_t low = sign_bit | bits, high = static_cast<uint16_t>(low + 1);
      const double below = meaning(low, exponent_bits, mantissa_bits);
      // The neighbour of the largest finite value is the first value of the next binade.
      const double above = high == (sign_bit | infinity)
                               ? below + (below - meaning(static_cast<uint16_t>(low - 1),
                                                          exponent_bits, mantissa_bits))
                               : meaning(high, exponent_bits, mantissa_bits);
      const double middle = (below + above) / 2;
      const float midpoint = static_cast<float>(middle);
      wrong += round(static_cast<float>(below)).bits != low;
      if (static_cast<double>(midpoint) != middle)
        continue;  // bf16 subnormals: the midpoint is
                   // not an fp32 number
      wrong += round(midpoint).bits != (low % 2 == 0 ? low : high);
      const float outward = sign ? -HUGE_VALF : HUGE_VALF;
      wrong += round(std::nextafter(midpoint, outward)).bits != high;
      wrong += round(std::nextafter(midpoint, 0.0f)).bits != low;
    }
  }
  CHECK(wrong == 0);
}

}  // namespace

TEST_CASE("every 16-bit pattern means what its format says") {
  int wrong = 0;
  for (int i = 0; i < 65536; ++i) {
    const uint16_t bits = static_cast<uint16_t>(i);
    for (const auto& [got, want] : {std::pair(to_float(bf16{bits}), meaning(bits, 8, 7)),
                                    std::pair(to_float(fp16{bits}), meaning(bits, 5, 10))}) {
      const bool same = std::isnan(want) ? std::isnan(got)
                                         : got == want && std::signbit(got) == std::signbit(want);
      wrong += !same;
    }
  }
  CHECK(wrong == 0);
}

TEST_CASE("rounding is to nearest even at every boundary") {
  check_every_boundary<bf16>(to_bf16, 8, 7);
  check_every_boundary<fp16>(to_fp16, 5, 10);
}

TEST_CASE("every value survives the way to fp32 and back") {
  int wrong = 0;
  for (int i = 0; i < 65536; ++i) {
    const uint16_t bits = static_cast<uint16_t>(i);
    const bool nan_bf16 = std::isnan(to_float(bf16{bits}));
    const bool nan_fp16 = std::isnan(to_float(fp16{bits}));
    const uint16_t back_bf16 = to_bf16(to_float(bf16{bits})).bits;
    const uint16_t back_fp16 = to_fp16(to_float(fp16{bits})).bits;
    wrong += nan_bf16 ? !std::isnan(to_float(bf16{back_bf16})) : back_bf16 != bits;
    wrong += nan_fp16 ? !std::isnan(to_float(fp16{back_fp16})) : back_fp16 != bits;
  }
  CHECK(wrong == 0);
}

TEST_CASE("a NaN stays a NaN, however its mantissa looks") {
  for (uint32_t mantissa = 1; mantissa < 0x800000; mantissa = mantissa * 2 + 1) {
    for (const uint32_t sign : {0u, 0x80000000u}) {
      const float nan = std::bit_cast<float>(sign | 0x7f800000u | mantissa);
      CHECK(std::isnan(to_float(to_bf16(nan))));
      CHECK(std::isnan(to_float(to_fp16(nan))));
    }
  }
}

TEST_CASE("one unit in the last place") {
  CHECK(unit_in_last_place(Dtype::f32, 1.0) == 0x1p-23);
  CHECK(unit_in_last_place(Dtype::f16, 1.0) == 0x1p-10);
  CHECK(unit_in_last_place(Dtype::bf16, 1.0) == 0x1p-7);
  CHECK(unit_in_last_place(Dtype::bf16, 3.9) == 0x1p-6);
  CHECK(unit_in_last_place(Dtype::f16, 0.0) == 0x1p-24);
  CHECK(unit_in_last_place(Dtype::f16, 1e-7) == 0x1p-24);  // subnormal
}
