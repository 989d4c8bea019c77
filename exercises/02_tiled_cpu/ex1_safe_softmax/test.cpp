#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <safe_softmax.hpp>
#include <vector>

#include "exercises/support/verdict.hpp"

using exercise::Numbers;

// f(x_i) / sum of all f(x_j), with the number types in which terms and sum may be: what overflows
// depends on them (std::exp of a float is a float, exp without std:: is a double).
template <class Sum = float, class Term>
static Numbers normalised(const std::vector<float>& x, Term term) {
  Sum sum = 0;
  for (const float value : x) sum = static_cast<Sum>(sum + term(value));
  Numbers a;
  for (const float value : x) a.push_back(static_cast<float>(term(value) / sum));
  return a;
}

static const char* const kNoMax =
    "e^x without the maximum subtracted: above x = 88.7 it is Inf in fp32 (709.8 in double), and "
    "Inf / Inf is NaN";

static void check_softmax(const std::vector<float>& x) {
  const float m = *std::max_element(x.begin(), x.end());
  std::vector<float> a(x.size(), NAN);
  safe_softmax(x, a);
  exercise::check_output(
      {"a"}, exercise::numbers(a), normalised(x, [&](float v) { return std::exp(v - m); }),
      {{"no-max", normalised(x, [](float v) { return std::exp(v); }), kNoMax},
       {"no-max", normalised(x, [](double v) { return std::exp(v); }), kNoMax},
       {"no-max", normalised<double>(x, [](double v) { return std::exp(v); }), kNoMax},
       {"max-outside-exponent", normalised(x, [&](float v) { return std::exp(v) - m; }),
        "this is e^x - m; the maximum is subtracted in the exponent: e^(x - m)"},
       {"max-starts-at-zero",
        normalised(x, [&](float v) { return std::exp(v - std::max(m, 0.0f)); }),
        "the maximum started at 0; no score reaches it, every term is 0, and 0 / 0 is NaN"}});
}

TEST_CASE("1 to 6") { check_softmax({1, 2, 3, 4, 5, 6}); }
TEST_CASE("one number") { check_softmax({-3}); }
TEST_CASE("numbers whose exponential overflows") { check_softmax({1, 2, 100}); }
TEST_CASE("numbers far below zero") { check_softmax({-300, -302, -301}); }
TEST_CASE("numbers too large for a double's exponential") { check_softmax({-1, 1000, 999}); }
TEST_CASE("a long row") { check_softmax(exercise::random_numbers(1000, 1)); }
