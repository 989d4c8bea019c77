#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <quantize.hpp>
#include <string>
#include <vector>

#include "exercises/support/verdict.hpp"

using exercise::Numbers;

constexpr float NOT_A_NUMBER = std::numeric_limits<float>::quiet_NaN();
constexpr float INFINITE = std::numeric_limits<float>::infinity();

// The function as people write it: right as it stands here, each mistake is a change to it.
struct Way {
  enum Largest { kAbsolute, kSigned, kRange, kMean, kFirst } of = kAbsolute;
  float levels = 127;
  enum Rounding { kNearest, kTruncated, kFloor, kCeil } rounding = kNearest;
  enum Zeros { kOne, kZero, kTiny } zeros = kOne;
  enum Returned { kScale, kInverse, kLargest } returned = kScale;
  enum Bad { kNan, kDropped, kInfOnly, kNanOnly, kLastOnly } bad = kNan;
  bool negative_lost = false, clamped = false;

  float quantize(const std::vector<float>& x, std::vector<int8_t>& n) const {
    float largest = 0, smallest = 0, sum = 0;
    bool has_nan = false, has_inf = false;
    for (const float value : x) {
      has_nan |= std::isnan(value);
      has_inf |= std::isinf(value);
      largest = std::max(largest, of == kSigned || of == kRange ? value : std::abs(value));
      smallest = std::min(smallest, value);
      sum += std::abs(value);
    }
    if (of == kRange) largest = (largest - smallest) / 2;
    if (of == kMean) largest = sum / static_cast<float>(x.size());
    if (of == kFirst) largest = std::abs(x[0]);
    if ((has_nan && (bad == kNan || bad == kNanOnly)) ||
        (has_inf && (bad == kNan || bad == kInfOnly)) ||
        (bad == kLastOnly && (has_inf || std::isnan(x.back()))))
      return NOT_A_NUMBER;
    if (has_nan || has_inf) return largest / levels;
    float scale = largest / levels;
    if (largest == 0) scale = zeros == kOne ? 1.0f : zeros == kZero ? 0.0f : 1e-8f;
    for (size_t i = 0; i < x.size(); ++i) {
      if (largest == 0) {
        n[i] = 0;
        continue;
      }
      const float value = negative_lost ? std::abs(x[i]) : x[i];
      const float ratio = value / scale;
      const float whole = rounding == kTruncated ? std::trunc(ratio)
                          : rounding == kFloor   ? std::floor(ratio)
                          : rounding == kCeil    ? std::ceil(ratio)
                                                 : std::nearbyint(ratio);
      const auto number = static_cast<int>(std::clamp(whole, -1e6f, 1e6f));
      n[i] = clamped ? static_cast<int8_t>(std::clamp(number, -127, 127))
                     : static_cast<int8_t>(static_cast<uint8_t>(number & 0xff));
    }
    return returned == kScale ? scale : returned == kInverse ? 1 / scale : largest;
  }
};

struct Answer {
  float quantize(const std::vector<float>& x, std::vector<int8_t>& n) const {
    return ::quantize(x, n);
  }
};

struct Known {
  const char* name;
  Way way;
  const char* explanation;
};

static const std::vector<Known>& all_known() {
  using W = Way;
  static const char* const truncated =
      "numbers were cut off, not rounded to the nearest: the error is up to a whole scale";
  static const char* const dropped =
      "a NaN or an Inf in the group did not make the scale NaN: max drops a NaN, and a cast makes "
      "any number of it; look with isfinite";
  static const std::vector<Known> known = {
      {"largest-with-sign",
       {.of = W::kSigned},
       "the largest number was taken with its sign; -9 is larger than 1 here: std::abs"},
      {"largest-with-sign",
       {.of = W::kSigned, .clamped = true},
       "the largest number was taken with its sign; -9 is larger than 1 here: std::abs"},
      {"half-of-the-range",
       {.of = W::kRange},
       "the scale reaches half of largest - smallest; it has to reach the largest |x|"},
      {"half-of-the-range",
       {.of = W::kRange, .clamped = true},
       "the scale reaches half of largest - smallest; it has to reach the largest |x|"},
      {"mean-for-largest",
       {.of = W::kMean, .clamped = true},
       "the scale was made of the mean of |x|; what is larger does not fit into 8 bits"},
      {"mean-for-largest",
       {.of = W::kMean},
       "the scale was made of the mean of |x|; what is larger does not fit into 8 bits"},
      {"first-for-largest",
       {.of = W::kFirst, .clamped = true},
       "the scale was made of the first number"},
      {"first-for-largest", {.of = W::kFirst}, "the scale was made of the first number"},
      {"one-step-too-many",
       {.levels = 128},
       "the largest number became 128, which wraps around to -128: 127 steps"},
      {"one-step-too-many",
       {.levels = 128, .clamped = true},
       "the scale is largest / 128, so the largest number became 128 and had to be cut to 127"},
      {"all-codes-one-sided",
       {.levels = 255},
       "255 steps are for numbers from 0 up; with signs there are 127 on either side"},
      {"all-codes-one-sided",
       {.levels = 255, .clamped = true},
       "255 steps are for numbers from 0 up; with signs there are 127 on either side"},
      {"cut-off-not-rounded", {.rounding = W::kTruncated}, truncated},
      {"cut-off-not-rounded", {.rounding = W::kFloor}, truncated},
      {"cut-off-not-rounded", {.rounding = W::kCeil, .clamped = true}, truncated},
      {"zero-scale",
       {.zeros = W::kZero},
       "the scale of zeros is 0, and 0 / 0 is NaN on the way: they ask for 1"},
      {"tiny-scale-for-zeros",
       {.zeros = W::kTiny},
       "the scale of zeros is a tiny number; here it is 1"},
      {"inverse-returned",
       {.returned = W::kInverse},
       "127 / largest was returned: what n was multiplied by. The scale is what n has to be "
       "multiplied by later"},
      {"largest-returned",
       {.returned = W::kLargest},
       "the largest |x| was returned; the scale is 1/127 of it"},
      {"sign-lost", {.negative_lost = true}, "negative numbers have become positive"},
      {"nan-dropped", {.bad = W::kDropped}, dropped},
      {"nan-dropped", {.bad = W::kInfOnly}, dropped},
      {"inf-not-seen",
       {.bad = W::kNanOnly},
       "an Inf in the group did not make the scale NaN: it is no multiple of anything, either"},
      {"nan-lost-behind",
       {.bad = W::kLastOnly},
       "max(|x|, largest) keeps a NaN until the next number comes: only one at the end is seen"},
  };
  return known;
}

template <class Any>
static Numbers quantized(const Any& way, const std::vector<float>& x) {
  std::vector<int8_t> n(x.size(), 99);
  const float scale = way.quantize(x, n);
  Numbers all = {scale};
  for (const int8_t number : n) all.push_back(number);
  return all;
}

static void check_group(const std::vector<float>& x) {
  std::vector<exercise::Mistake> mistakes;
  for (const Known& one : all_known())
    mistakes.push_back({one.name, quantized(one.way, x), one.explanation});
  exercise::check_output({"scale, then n", 0, 1e-5}, quantized(Answer{}, x), quantized(Way{}, x),
                         mistakes);
}

// The scale alone: NaN, or not.
static void check_bad(const std::vector<float>& x) {
  const auto shown = [&](const auto& way) {
    std::vector<int8_t> n(x.size());
    return std::string(std::isnan(way.quantize(x, n)) ? "NaN" : "a number");
  };
  std::vector<exercise::Look> looks;
  for (const Known& one : all_known()) looks.push_back({one.name, shown(one.way), one.explanation});
  const std::string got = shown(Answer{});
  exercise::check_shown(got == "NaN",
                        "the scale of a group with a NaN or an Inf: expected NaN, got " + got, got,
                        looks);
}

TEST_CASE("four numbers") { check_group({0.9f, -0.2f, 0.05f, -1.27f}); }
TEST_CASE("multiples of 1") { check_group({127, -3, 0, 64, -126}); }
TEST_CASE("the largest is positive") { check_group({-1.7f, 3.3f, 2.9f, 0.4f, -0.01f}); }
TEST_CASE("the largest is negative") { check_group({1.7f, -3.3f, 2.9f, 0.4f, 0.01f}); }
TEST_CASE("far out") {
  check_group({2e-3f, -1.1e-3f, 3e-5f});
  check_group({-2e30f, 1.3e30f, 4e28f});
  check_group({2e-20f, -1.1e-20f, 3e-22f});
}
TEST_CASE("random numbers") {
  for (const int seed : {1, 2, 3}) check_group(exercise::random_numbers(40, seed, 2));
}
TEST_CASE("zeros") { check_group({0, 0, 0}); }
TEST_CASE("a NaN or an Inf") {
  for (const float bad : {NOT_A_NUMBER, INFINITE, -INFINITE}) {
    check_bad({1, bad, 2});
    check_bad({bad, 3});
    check_bad({-4, 1, bad});
  }
}
