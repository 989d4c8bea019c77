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

// The right answer, and each mistake as a change to it.
struct Way {
  exercise::Changes is;

  float quantize(const std::vector<float>& x, std::vector<int8_t>& n) const {
    float largest = is("if-first") ? std::abs(x[0]) : 0, smallest = 0, sum = 0;
    bool has_nan = false, has_inf = false;
    for (const float value : x) {
      has_nan |= std::isnan(value);
      has_inf |= std::isinf(value);
      if (is("finite-only") && !std::isfinite(value)) continue;
      const float size = is("largest-with-sign") || is("range") ? value : std::abs(value);
      largest = is("if-last") ? std::max(size, largest) : std::max(largest, size);
      smallest = std::min(smallest, value);
      sum += std::abs(value);
    }
    if (is("range")) largest = (largest - smallest) / 2;
    if (is("min-max")) {
      const auto [low, high] = std::minmax_element(x.begin(), x.end());
      largest = (*high - *low) / 2;
    }
    if (is("mean-for-largest")) largest = sum / static_cast<float>(x.size());
    if (is("first-for-largest")) largest = std::abs(x[0]);
    if ((has_nan && !is.any("dropped", "if-first", "if-last")) || (has_inf && !is("inf-not-seen")))
      return is.number("of-bad", NOT_A_NUMBER);
    if (has_nan || has_inf) return largest / is.number("levels", 127);
    const float scale =
        largest == 0 ? is.number("of-zeros", 1) : largest / is.number("levels", 127);
    for (size_t i = 0; i < x.size(); ++i) {
      if (largest == 0 && !is("min-max")) {
        if (!is("zeros-not-written")) n[i] = 0;
        continue;
      }
      const float value = is("sign-lost") ? std::abs(x[i]) : x[i];
      const float ratio = is("multiplied-by-scale") ? value * scale : value / scale;
      const float whole = is("truncated")                 ? std::trunc(ratio)
                          : is("floor")                   ? std::floor(ratio)
                          : is("ceil")                    ? std::ceil(ratio)
                          : is("half-added-to-negatives") ? std::trunc(ratio + 0.5f)
                                                          : std::nearbyint(ratio);
      const float fitting = std::abs(whole) < 0x1p31f ? whole : 0;  // larger ones end with 0 bits
      n[i] = static_cast<int8_t>(static_cast<uint8_t>(static_cast<int>(fitting) & 0xff));
    }
    return is("inverse-returned") ? 1 / scale : is("largest-returned") ? largest : scale;
  }
};

struct Answer {
  float quantize(const std::vector<float>& x, std::vector<int8_t>& n) const {
    return ::quantize(x, n);
  }
};

static const exercise::Table MISTAKES(R"(
largest-with-sign
  the largest number was taken with its sign. But -9 is larger than 1 here: use std::abs
half-of-the-range: {range,min-max} {,levels=127.5}
  the scale reaches half of largest - smallest. It has to reach the largest |x|
mean-for-largest
  the scale was computed from the mean of |x|, so that larger numbers do not fit into 8 bits
first-for-largest
  the scale was made of the first number
one-step-too-many: levels=128
  the scale is largest / 128: the largest number becomes 128 or -128, and n goes from -127 to 127
all-codes-one-sided: levels=255
  255 steps are for numbers from 0 up. With signs there are 127 on either side
cut-off-not-rounded: truncated; floor; ceil
  numbers were cut off, not rounded to the nearest: the error is up to a whole scale
half-added-to-negatives
  1/2 was added and the rest cut off: a cast cuts toward 0, so -19.6 becomes -19
multiplied-by-scale
  x was multiplied by the scale. But n is x / scale, so that scale * n is x again
zero-scale: of-zeros=0
  the scale of zeros is 0, and 0 / 0 is NaN on the way: they ask for 1
tiny-scale-for-zeros: of-zeros=1e-8
  the scale of zeros is a tiny number. Here it is 1
nan-for-zeros: of-zeros=nan
  the scale of zeros is NaN. 0 is a multiple of any number, and they ask for 1
zeros-not-written
  the scale of zeros is right, but their n were left as they were, not set to 0
inverse-returned
  127 / largest was returned, which is the factor from x to n. The scale is the factor from n to x
largest-returned
  the largest |x| was returned. The scale is 1/127 of it
sign-lost
  negative numbers have become positive
nan-dropped: dropped
  a NaN in the group did not make the scale NaN: max drops it. Look with isfinite
nan-dropped: dropped inf-not-seen
  the code does not look for a NaN or an Inf. max drops a NaN, and an Inf makes the scale Inf: use
  isfinite
nan-dropped: dropped inf-not-seen finite-only
  NaN and Inf were left out when the largest was looked for. They make the scale NaN
inf-not-seen
  an Inf in the group made the scale Inf, not NaN: it is no multiple of anything, either
nan-lost-behind: if-last; if-last inf-not-seen
  max(|x|, largest) keeps a NaN until the next number comes: only one at the end is seen
nan-kept-if-first: if-first; if-first inf-not-seen
  a NaN was dropped, unless it came first: max(largest, |x|) keeps what it began with
seen-but-not-nan: of-bad=1
  a group with a NaN or an Inf got the scale 1: its scores look like any others. NaN says it
seen-but-not-nan: of-bad=0
  a group with a NaN or an Inf got the scale 0: its scores look like any others. NaN says it
seen-but-not-nan: of-bad=inf
  a group with a NaN or an Inf got the scale Inf. It should get NaN for either
)");

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
  exercise::Output output{.name = "scale and n", .names = {"scale"}, .relative = true};
  for (size_t i = 0; i < x.size(); ++i) output.names.push_back("n[" + std::to_string(i) + "]");
  exercise::check_output<Way, Answer>(output, MISTAKES,
                                      [&](const auto& way) { return quantized(way, x); });
}

// The scale alone, of a group that is out of the ordinary.
static void check_scale(const std::string& of, const std::vector<float>& x,
                        const std::string& right) {
  const auto shown = [&](const auto& way) {
    const double scale = quantized(way, x)[0];
    return scale > 0 && scale < 1e-5 ? std::string("a tiny number") : exercise::text(scale);
  };
  CHECK(shown(Way{}) == right);
  exercise::check_shown<Way, Answer>("the scale of " + of, MISTAKES, shown);
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
  CHECK(n_of(Way{}) == Numbers{0, 0, 0});
  exercise::check_output<Way, Answer>({"n", 0, 0}, MISTAKES, n_of);
}
TEST_CASE("a NaN or an Inf") {
  for (const float bad : {NOT_A_NUMBER, INFINITE, -INFINITE}) {
    const std::string group = "a group with " + exercise::text(bad);
    check_scale(group, {1, bad, 2}, "NaN");
    check_scale(group, {bad, 3}, "NaN");
    check_scale(group, {-4, 1, bad}, "NaN");
  }
}
