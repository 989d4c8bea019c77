#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <initializer_list>
#include <limits>

#include "common/fp8.hpp"

using namespace fa;

namespace {

// Returns the value of a code, computed from the definition.
double meaning(int bits) {
  const int exponent = (bits >> 3) & 15, mantissa = bits & 7;
  if (exponent == 15 && mantissa == 7) return std::numeric_limits<double>::quiet_NaN();
  const double magnitude =
      exponent == 0 ? std::ldexp(mantissa, -9) : std::ldexp(8 + mantissa, exponent - 10);
  return bits & 0x80 ? -magnitude : magnitude;
}

}  // namespace

TEST_CASE("every code of e4m3 means what the format says, and comes back") {
  for (int bits = 0; bits < 256; ++bits) {
    CAPTURE(bits);
    const float got = to_float(e4m3{static_cast<uint8_t>(bits)});
    const double want = meaning(bits);
    REQUIRE(std::isnan(got) == std::isnan(want));
    CHECK(std::signbit(got) == (bits >= 128));
    CHECK(to_e4m3(got).bits == bits);
    if (!std::isnan(want)) CHECK(got == want);
  }
  CHECK(to_float(e4m3{0x7e}) == kLargestE4m3);
}

TEST_CASE("e4m3 rounds to nearest, ties to even, at every boundary") {
  for (const int sign : {0, 0x80}) {
    for (int bits = 0; bits < 0x7e; ++bits) {
      const int low = sign | bits, high = low + 1;
      CAPTURE(low);
      const float middle = static_cast<float>((meaning(low) + meaning(high)) / 2);
      const float outward = sign ? -HUGE_VALF : HUGE_VALF;
      CHECK(to_e4m3(middle).bits == (low % 2 == 0 ? low : high));
      CHECK(to_e4m3(std::nextafter(middle, outward)).bits == high);
      CHECK(to_e4m3(std::nextafter(middle, 0.0f)).bits == low);
    }
  }
}

TEST_CASE("e4m3: what is too large is 448, a NaN stays one") {
  for (const float large : {448.0f, 464.0f, 480.0f, 1e30f, HUGE_VALF}) {
    CHECK(to_e4m3(large).bits == 0x7e);
    CHECK(to_e4m3(-large).bits == 0xfe);
  }
  CHECK(to_e4m3(std::numeric_limits<float>::denorm_min()).bits == 0);
  CHECK(to_e4m3(-0.0f).bits == 0x80);
  for (uint32_t mantissa = 1; mantissa < 0x800000; mantissa = mantissa * 2 + 1) {
    for (const uint32_t sign : {0u, 0x80000000u}) {
      CHECK(std::isnan(to_float(to_e4m3(std::bit_cast<float>(sign | 0x7f800000u | mantissa)))));
    }
  }
}
