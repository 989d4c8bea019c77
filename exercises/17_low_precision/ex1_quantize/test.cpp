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
  enum Largest { kAbsolute, kSigned, kRange, kMinMax, kMean, kFirst } of = kAbsolute;
  float levels = 127;
  enum Rounding { kNearest, kTruncated, kFloor, kCeil, kHalfAdded } rounding = kNearest;
  enum Returned { kScale, kInverse, kLargest } returned = kScale;
  enum Nan { kSeen, kDropped, kIfFirst, kIfLast } nan = kSeen;
  bool inf_seen = true, finite_only = false;
  float of_bad = NOT_A_NUMBER, of_zeros = 1;
  bool negative_lost = false, multiplied = false, zeros_not_written = false;
  enum Fit { kWrapped, kCutTo127, kCutTo128 } fit = kWrapped;  // what is too large for n

  float quantize(const std::vector<float>& x, std::vector<int8_t>& n) const {
    float largest = nan == kIfFirst ? std::abs(x[0]) : 0, smallest = 0, sum = 0;
    bool has_nan = false, has_inf = false;
    for (const float value : x) {
      has_nan |= std::isnan(value);
      has_inf |= std::isinf(value);
      if (finite_only && !std::isfinite(value)) continue;
      const float size = of == kSigned || of == kRange ? value : std::abs(value);
      largest = nan == kIfLast ? std::max(size, largest) : std::max(largest, size);
      smallest = std::min(smallest, value);
      sum += std::abs(value);
    }
    if (of == kRange) largest = (largest - smallest) / 2;
    if (of == kMinMax) {
      const auto [low, high] = std::minmax_element(x.begin(), x.end());
      largest = (*high - *low) / 2;
    }
    if (of == kMean) largest = sum / static_cast<float>(x.size());
    if (of == kFirst) largest = std::abs(x[0]);
    if ((has_nan && nan == kSeen) || (has_inf && inf_seen)) return of_bad;
    if (has_nan || has_inf) return largest / levels;
    const float scale = largest == 0 ? of_zeros : largest / levels;
    for (size_t i = 0; i < x.size(); ++i) {
      if (largest == 0 && of != kMinMax) {
        if (!zeros_not_written) n[i] = 0;
        continue;
      }
      const float value = negative_lost ? std::abs(x[i]) : x[i];
      const float ratio = multiplied ? value * scale : value / scale;
      const float whole = rounding == kTruncated   ? std::trunc(ratio)
                          : rounding == kFloor     ? std::floor(ratio)
                          : rounding == kCeil      ? std::ceil(ratio)
                          : rounding == kHalfAdded ? std::trunc(ratio + 0.5f)
                                                   : std::nearbyint(ratio);
      const float fitting = fit == kCutTo127            ? std::clamp(whole, -127.0f, 127.0f)
                            : fit == kCutTo128          ? std::clamp(whole, -128.0f, 127.0f)
                            : std::abs(whole) < 0x1p31f ? whole
                                                        : 0;  // the last bits of such a number
      n[i] = static_cast<int8_t>(static_cast<uint8_t>(static_cast<int>(fitting) & 0xff));
    }
    return returned == kScale ? scale : returned == kInverse ? 1 / scale : largest;
  }
};

struct Answer {
  float quantize(const std::vector<float>& x, std::vector<int8_t>& n) const {
    return ::quantize(x, n);
  }
};

using Known = exercise::Known<Way>;

static std::vector<Known> all_known() {
  using W = Way;
  static const char* const truncated =
      "numbers were cut off, not rounded to the nearest: the error is up to a whole scale";
  static const char* const half =
      "the scale reaches half of largest - smallest; it has to reach the largest |x|";
  static const char* const lost_behind =
      "max(|x|, largest) keeps a NaN until the next number comes: only one at the end is seen";
  static const char* const unless_first =
      "a NaN was dropped, unless it came first: max(largest, |x|) keeps what it began with";
  static const std::vector<Known> known = {
      {"largest-with-sign",
       {.of = W::kSigned},
       "the largest number was taken with its sign; -9 is larger than 1 here: std::abs"},
      {"half-of-the-range", {.of = W::kRange}, half},
      {"half-of-the-range", {.of = W::kRange, .levels = 127.5f}, half},
      {"half-of-the-range", {.of = W::kMinMax}, half},
      {"half-of-the-range", {.of = W::kMinMax, .levels = 127.5f}, half},
      {"mean-for-largest",
       {.of = W::kMean},
       "the scale was made of the mean of |x|; what is larger does not fit into 8 bits"},
      {"first-for-largest", {.of = W::kFirst}, "the scale was made of the first number"},
      {"one-step-too-many",
       {.levels = 128},
       "the scale is largest / 128: the largest number becomes 128 or -128, and n goes from -127 "
       "to 127"},
      {"all-codes-one-sided",
       {.levels = 255},
       "255 steps are for numbers from 0 up; with signs there are 127 on either side"},
      {"cut-off-not-rounded", {.rounding = W::kTruncated}, truncated},
      {"cut-off-not-rounded", {.rounding = W::kFloor}, truncated},
      {"cut-off-not-rounded", {.rounding = W::kCeil}, truncated},
      {"half-added-to-negatives",
       {.rounding = W::kHalfAdded},
       "1/2 was added and the rest cut off: a cast cuts toward 0, so -19.6 becomes -19"},
      {"multiplied-by-scale",
       {.multiplied = true},
       "x was multiplied by the scale; n is x / scale, so that scale * n is x again"},
      {"zero-scale",
       {.of_zeros = 0},
       "the scale of zeros is 0, and 0 / 0 is NaN on the way: they ask for 1"},
      {"tiny-scale-for-zeros",
       {.of_zeros = 1e-8f},
       "the scale of zeros is a tiny number; here it is 1"},
      {"nan-for-zeros",
       {.of_zeros = NOT_A_NUMBER},
       "the scale of zeros is NaN; 0 is a multiple of any number, and they ask for 1"},
      {"zeros-not-written",
       {.zeros_not_written = true},
       "the scale of zeros is right, but their n were left as they were, not set to 0"},
      {"inverse-returned",
       {.returned = W::kInverse},
       "127 / largest was returned: what n was multiplied by. The scale is what n has to be "
       "multiplied by later"},
      {"largest-returned",
       {.returned = W::kLargest},
       "the largest |x| was returned; the scale is 1/127 of it"},
      {"sign-lost", {.negative_lost = true}, "negative numbers have become positive"},
      {"nan-dropped",
       {.nan = W::kDropped},
       "a NaN in the group did not make the scale NaN: max drops it; look with isfinite"},
      {"nan-dropped",
       {.nan = W::kDropped, .inf_seen = false},
       "nobody looked for a NaN or an Inf: max drops a NaN, and an Inf makes the scale Inf; look "
       "with isfinite"},
      {"nan-dropped",
       {.nan = W::kDropped, .inf_seen = false, .finite_only = true},
       "NaN and Inf were left out when the largest was looked for; they make the scale NaN"},
      {"inf-not-seen",
       {.inf_seen = false},
       "an Inf in the group made the scale Inf, not NaN: it is no multiple of anything, either"},
      {"nan-lost-behind", {.nan = W::kIfLast}, lost_behind},
      {"nan-lost-behind", {.nan = W::kIfLast, .inf_seen = false}, lost_behind},
      {"nan-kept-if-first", {.nan = W::kIfFirst}, unless_first},
      {"nan-kept-if-first", {.nan = W::kIfFirst, .inf_seen = false}, unless_first},
      {"seen-but-not-nan",
       {.of_bad = 1},
       "a group with a NaN or an Inf got the scale 1: its scores look like any others; NaN says "
       "it"},
      {"seen-but-not-nan",
       {.of_bad = 0},
       "a group with a NaN or an Inf got the scale 0: its scores look like any others; NaN says "
       "it"},
      {"seen-but-not-nan",
       {.of_bad = INFINITE},
       "a group with a NaN or an Inf got the scale Inf; it is NaN for either"},
  };
  std::vector<Known> all;  // whatever an answer does with numbers that are too large for n
  for (Known one : known)
    for (const W::Fit fit : {W::kWrapped, W::kCutTo127, W::kCutTo128}) {
      one.way.fit = fit;
      all.push_back(one);
    }
  return all;
}

// The scale, then all n.
template <class Any>
static Numbers quantized(const Any& way, const std::vector<float>& x) {
  std::vector<int8_t> n(x.size(), 99);
  const float scale = way.quantize(x, n);
  Numbers all = {scale};
  for (const int8_t number : n) all.push_back(number);
  return all;
}

static void check_group(const std::vector<float>& x) {
  const auto mistakes =
      exercise::mistakes(all_known(), [&](const Way& way) { return quantized(way, x); });
  exercise::Output output{.name = "scale and n", .names = {"scale"}, .relative = true};
  for (size_t i = 0; i < x.size(); ++i) output.names.push_back("n[" + std::to_string(i) + "]");
  exercise::check_output(output, quantized(Answer{}, x), quantized(Way{}, x), mistakes);
}

// The scale alone, of a group that is out of the ordinary.
static void check_scale(const std::string& of, const std::vector<float>& x,
                        const std::string& right) {
  const auto shown = [&](const auto& way) {
    const double scale = quantized(way, x)[0];
    return scale > 0 && scale < 1e-5 ? std::string("a tiny number") : exercise::text(scale);
  };
  const auto looks = exercise::looks(all_known(), shown);
  const std::string got = shown(Answer{});
  exercise::check_shown(got == right, "the scale of " + of + ": expected " + right + ", got " + got,
                        got, looks);
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
TEST_CASE("zeros") {
  const std::vector<float> zeros = {0, 0, 0};
  check_scale("zeros", zeros, "1");
  const auto n_of = [&](const auto& way) {
    const Numbers all = quantized(way, zeros);
    return Numbers(all.begin() + 1, all.end());
  };
  const auto mistakes = exercise::mistakes(all_known(), n_of);
  exercise::check_output({"n", 0, 0}, n_of(Answer{}), {0, 0, 0}, mistakes);
}
TEST_CASE("a NaN or an Inf") {
  for (const float bad : {NOT_A_NUMBER, INFINITE, -INFINITE}) {
    const std::string group = "a group with " + exercise::text(bad);
    check_scale(group, {1, bad, 2}, "NaN");
    check_scale(group, {bad, 3}, "NaN");
    check_scale(group, {-4, 1, bad}, "NaN");
  }
}
