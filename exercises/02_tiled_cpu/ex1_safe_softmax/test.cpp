#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <safe_softmax.hpp>
#include <vector>

#include "exercises/support/verdict.hpp"

using exercise::Numbers;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// The right answer, and each mistake as a change to it.
struct Way {
  exercise::Changes is;

  // The number that is subtracted in the exponents.
  float maximum(const std::vector<float>& x) const {
    float m = -kInfinity, magnitude = 0;
    for (size_t i = 0; i + is("last-not-compared") < x.size(); ++i) m = std::max(m, x[i]);
    for (const float value : x) magnitude = std::max(magnitude, std::abs(value));
    return is("minimum-for-maximum")      ? *std::min_element(x.begin(), x.end())
           : is("first-score-subtracted") ? x[0]
           : is("largest-magnitude")      ? magnitude
           : is("max-starts-at-zero")     ? std::max(m, 0.0f)
                                          : m;
  }
  // The type decides what overflows, because std::exp of a float is a float, but exp without std::
  // a double.
  double term(float x, float m) const {
    return is("no-max-in-double")        ? std::exp(static_cast<double>(x))
           : is("no-max")                ? std::exp(x)
           : is("exponent-upside-down")  ? std::exp(m - x)
           : is("maximum-added")         ? std::exp(x + m)
           : is("exponential-forgotten") ? x - m
           : is("max-outside-exponent")  ? std::exp(x) - m
                                         : std::exp(x - m);
  }
  Numbers weights(const std::vector<float>& x) const {
    const float m = maximum(x);
    const bool one_loop = is("all-in-one-loop");
    float so_far = -kInfinity;
    double sum = is("sum-starts-at-one") ? 1 : 0;
    Numbers above, divisors, a;
    for (size_t i = 0; i < x.size(); ++i) {
      so_far = std::max(so_far, x[i]);
      above.push_back(is("numerator-without-maximum") ? std::exp(x[i])
                                                      : term(x[i], one_loop ? so_far : m));
      if (is("own-term-too-late")) divisors.push_back(sum);
      const double below = is("sum-without-maximum")                ? std::exp(x[i])
                           : is("summed-while-looking") || one_loop ? term(x[i], so_far)
                                                                    : term(x[i], m);
      const bool left_out = (is("first-score-left-out") && i == 0) ||
                            (is("last-score-left-out") && i + 1 == x.size());
      if (!left_out) sum = is("last-term-for-sum") ? below : sum + below;
      if (!is("sum-in-double")) sum = static_cast<float>(sum);
      if (!is("own-term-too-late")) divisors.push_back(sum);
    }
    for (size_t i = 0; i < x.size(); ++i)
      a.push_back(
          static_cast<float>(above[i] / (is("not-divided")                         ? 1
                                         : is("divided-while-summing") || one_loop ? divisors[i]
                                                                                   : sum)));
    return a;
  }
};

// The learner's answer, to be called as a Way is.
struct Answer {
  Numbers weights(const std::vector<float>& x) const {
    std::vector<float> a(x.size(), NAN);
    safe_softmax(x, a);
    return exercise::numbers(a);
  }
};

static const exercise::Table MISTAKES(R"(
no-max: no-max; no-max-in-double; no-max-in-double sum-in-double
  e^x without the maximum subtracted: above x = 88.7 it is Inf in fp32 (709.8 in double), and Inf /
  Inf is NaN
not-divided
  these are the terms e^(x - m). The weights are divided by their sum
sum-without-maximum
  the maximum is subtracted above the line and not in the sum. Both need the same factor
numerator-without-maximum
  the maximum is subtracted in the sum and not above the line. Both need the same factor
exponent-upside-down
  this is e^(m - x), which is largest for the smallest score. It should be e^(x - m)
maximum-added
  the maximum was added in the exponent. It has to be subtracted, so that no exponent is above 0
minimum-for-maximum
  the smallest score was subtracted. Then the largest exponent is above 0, and may overflow
first-score-subtracted
  the first score was subtracted, not the largest. An exponent above 88.7 overflows
first-score-left-out
  the sum begins at the second score
last-score-left-out
  the sum ends before the last score
last-score-left-out: last-not-compared
  the loop for the maximum ends before the last score. If that is the largest, its exponent is above
  0
last-term-for-sum
  the weights are divided by the last term, not by the sum of all: += and not =
summed-while-looking
  the sum was computed in the loop that looks for the maximum, so that each term is relative to the
  largest score so far. Compute the maximum first, or correct the sum (02.2)
divided-while-summing: divided-while-summing; divided-while-summing own-term-too-late
  each weight was divided by the sum so far. The loop that divides comes after the one that sums
divided-while-summing: all-in-one-loop
  one loop does everything, so that each weight is relative to the largest score so far and divided
  by the sum so far. Compute first the maximum, then the whole sum, then the weights
sum-starts-at-one
  the sum began with 1, and counts one term that is not there
exponential-forgotten
  the terms are x - m. They should be e^(x - m)
max-outside-exponent
  this is e^x - m. The maximum is subtracted in the exponent: e^(x - m)
largest-magnitude
  the largest |x| was subtracted. If that is a score far below zero, every term is 0, and 0 / 0 is
  NaN
max-starts-at-zero
  the maximum started at 0, or at numeric_limits<float>::min(), the smallest number above 0. No
  score reaches it, every term is 0, and 0 / 0 is NaN
)");

static void check_softmax(const std::vector<float>& x) {
  exercise::check_output<Way, Answer>({"a"}, MISTAKES,
                                      [&](const auto& answer) { return answer.weights(x); });
}

TEST_CASE("1 to 6") { check_softmax({1, 2, 3, 4, 5, 6}); }
TEST_CASE("one number") { check_softmax({-3}); }
TEST_CASE("numbers whose exponential overflows") { check_softmax({1, 2, 100}); }
TEST_CASE("numbers far below zero") { check_softmax({-300, -302, -301}); }
TEST_CASE("numbers too large for a double's exponential") { check_softmax({-1, 1000, 999}); }
TEST_CASE("neither the first nor the smallest") { check_softmax({3, -40, 60}); }
TEST_CASE("numbers a million below zero") { check_softmax({-1000001, -1000000}); }
TEST_CASE("the largest in magnitude is the smallest") { check_softmax({3, -1000, 1}); }
TEST_CASE("a long row") { check_softmax(exercise::random_numbers(1000, 1)); }
