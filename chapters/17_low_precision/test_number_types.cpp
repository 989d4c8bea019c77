#include <doctest/doctest.h>

#include <cmath>
#include <initializer_list>
#include <limits>
#include <vector>

#include "number_types.hpp"

using namespace ch17;

namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// Returns the value of a code of e5m2, from the definition.
double e5m2_meaning(int bits) {
  const int exponent = (bits >> 2) & 31, mantissa = bits & 3;
  double magnitude = std::ldexp(exponent ? 4 + mantissa : mantissa, exponent ? exponent - 17 : -16);
  if (exponent == 31) magnitude = mantissa ? kNan : HUGE_VAL;
  return bits & 0x80 ? -magnitude : magnitude;
}

// Checks the middle of each two adjacent numbers and its neighbours, so that all numbers are right.
template <class Number, class Round>
void check_boundaries(Round round, int largest_code, int sign_bit) {
  for (const int sign : {0, sign_bit}) {
    for (int bits = 0; bits < largest_code; ++bits) {
      const auto low = static_cast<uint8_t>(sign | bits), high = static_cast<uint8_t>(low + 1);
      CAPTURE(int{low});
      const float middle = (to_float(Number{low}) + to_float(Number{high})) / 2;
      CHECK(round(middle).bits == (low % 2 == 0 ? low : high));
      CHECK(round(std::nextafter(middle, sign ? -HUGE_VALF : HUGE_VALF)).bits == high);
      CHECK(round(std::nextafter(middle, 0.0f)).bits == low);
    }
  }
}

}  // namespace

TEST_CASE("e5m2: every code, every boundary, both ends") {
  for (int bits = 0; bits < 256; ++bits) {
    CAPTURE(bits);
    const e5m2 code{static_cast<uint8_t>(bits)};
    const double want = e5m2_meaning(bits);
    REQUIRE(std::isnan(to_float(code)) == std::isnan(want));
    if (std::isnan(want)) {
      CHECK(std::isnan(to_float(to_e5m2(to_float(code)))));
    } else {
      CHECK(to_float(code) == want);
      CHECK(std::signbit(to_float(code)) == (bits >= 128));
      CHECK(to_e5m2(to_float(code)).bits == (std::isinf(want) ? bits - 1 : bits));  // Inf becomes
                                                                                    // the largest
                                                                                    // number
    }
  }
  check_boundaries<e5m2>(to_e5m2, 0x7b, 0x80);
  CHECK(to_float(to_e5m2(1e9f)) == kLargestE5m2);
  CHECK(to_float(to_e5m2(-1e9f)) == -kLargestE5m2);
}

TEST_CASE("e2m1: eight numbers and their negatives") {
  const float numbers[] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
  for (int bits = 0; bits < 16; ++bits) {
    const e2m1 code{static_cast<uint8_t>(bits)};
    CHECK(to_float(code) == (bits < 8 ? numbers[bits] : -numbers[bits - 8]));
    CHECK(to_e2m1(to_float(code)).bits == bits);  // including -0
  }
  check_boundaries<e2m1>(to_e2m1, 7, 8);
  CHECK(to_float(to_e2m1(1e9f)) == 6);
  CHECK(to_float(to_e2m1(-HUGE_VALF)) == -6);
  CHECK(to_float(to_e2m1(kNan)) == 6);
}

TEST_CASE("e8m0: a power of two not above the number") {
  for (int bits = 0; bits < 255; ++bits) {
    const float power = std::ldexp(1.0f, bits - 127);
    CHECK(to_float(e8m0{static_cast<uint8_t>(bits)}) == power);
    CHECK(to_e8m0(power).bits == bits);
    CHECK(to_e8m0(std::nextafter(power, HUGE_VALF)).bits == bits);
    CHECK(to_e8m0(std::nextafter(power, 0.0f)).bits == (bits == 0 ? 0 : bits - 1));
  }
  CHECK(to_e8m0(0).bits == 0);
  CHECK(to_e8m0(HUGE_VALF).bits == 254);
  CHECK(std::isnan(to_float(e8m0{255})));
  CHECK(to_e8m0(kNan).bits == 255);
  CHECK(to_e8m0(-1).bits == 255);
}

TEST_CASE("MXFP8: 32 numbers share a power of two") {
  std::vector<float> row(65, 0.0f);
  row[0] = 1;         // scale 2^-8
  row[1] = 1.0625f;   // 272 times 2^-8, a tie of 256 and 288, to even
  row[2] = 0x1p-18f;  // half of the smallest, 2^-9 times 2^-8, a tie with 0, to zero
  row[3] = 0x1p-17f;
  row[32] = 480;  // scale 2^0, but e4m3 ends at 448
  row[33] = -0.0009f;
  row[64] = 3e-5f;  // a block of one number
  round_mxfp8(row);
  CHECK(row[0] == 1);
  CHECK(row[1] == 1);
  CHECK(row[2] == 0);
  CHECK(row[3] == 0x1p-17f);
  CHECK(row[32] == 448);
  CHECK(row[33] == 0);
  CHECK(row[64] == doctest::Approx(3e-5).epsilon(1.0 / 16));
}

TEST_CASE("NVFP4: 16 numbers share an e4m3 scale, a tensor an fp32 one") {
  std::vector<float> row(32, 0.0f);
  row[0] = 6, row[1] = 2.4f, row[2] = -2.5f, row[3] = 0.25f, row[4] = 0.26f;
  row[16] = 0.375f;              // scale 1/16
  const float unit = 1.0f / 64;  // scales 6 / 6 = 64 units and 4 units, both e4m3 numbers
  round_nvfp4(row, unit);
  CHECK(row[0] == 6);
  CHECK(row[1] == 2);
  CHECK(row[2] == -2);  // a tie of 2 and 3, to even
  CHECK(row[3] == 0);
  CHECK(row[4] == 0.5f);
  CHECK(row[16] == 0.375f);

  const float scale = nvfp4_tensor_scale(2688);
  CHECK(scale == 1);
  std::vector<float> wide{2688, 1};
  wide.resize(17);
  wide[16] = 0.005f;  // its block's scale, 0.005 / 6, is below half of e4m3's smallest number, so
                      // it becomes 0
  round_nvfp4(wide, scale);
  CHECK(wide[0] == 2688);
  CHECK(wide[16] == 0);
}

TEST_CASE("block formats: zeros stay zeros, what is not finite shows") {
  std::vector<float> zeros(48, 0.0f);
  round_mxfp8(zeros);
  round_nvfp4(zeros, nvfp4_tensor_scale(0));
  for (const float x : zeros) CHECK(x == 0);
  for (const float bad : {kNan, HUGE_VALF, -HUGE_VALF}) {
    std::vector<float> row(64, 1.0f);
    row[40] = bad;
    std::vector<float> other = row;
    round_mxfp8(row);
    round_nvfp4(other, nvfp4_tensor_scale(1));
    for (int i = 0; i < 64; ++i) {
      CHECK(std::isnan(row[i]) == (i >= 32));
      CHECK(std::isnan(other[i]) == (i >= 32 && i < 48));
    }
  }
}
