#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <safe_softmax.hpp>
#include <vector>

#include "exercises/support/verdict.hpp"

using exercise::Numbers;

// f(x_i) / sum of all f(x_j), with the number types in which terms and sum may be. They decide what
// overflows (std::exp of a float is a float, exp without std:: is a double).
template <class Sum = float, class Term>
static Numbers normalised(const std::vector<float>& x, Term term) {
  Sum sum = 0;
  for (const float value : x) sum = static_cast<Sum>(sum + term(value));
  Numbers a;
  for (const float value : x) a.push_back(static_cast<float>(term(value) / sum));
  return a;
}

// above(x_i) / sum of all below(x_j)
template <class Above, class Below>
static Numbers divided(const std::vector<float>& x, Above above, Below below) {
  float sum = 0;
  for (const float value : x) sum += below(value);
  Numbers a;
  for (const float value : x) a.push_back(above(value) / sum);
  return a;
}
template <class Term>
static Numbers terms(const std::vector<float>& x, Term term) {
  Numbers a;
  for (const float value : x) a.push_back(term(value));
  return a;
}

// The terms of the sum, each relative to the largest score before it or at it.
static Numbers summed_meanwhile(const std::vector<float>& x, float m) {
  float so_far = -std::numeric_limits<float>::infinity(), sum = 0;
  for (const float value : x) {
    so_far = std::max(so_far, value);
    sum += std::exp(value - so_far);
  }
  return terms(x, [&](float v) { return std::exp(v - m) / sum; });
}

// Each term divided by what was summed before it, with its own term or without; relative to m, or
// to the largest score so far.
static Numbers divided_meanwhile(const std::vector<float>& x, bool own, const float* m) {
  float so_far = -std::numeric_limits<float>::infinity(), sum = 0;
  Numbers a;
  for (const float value : x) {
    so_far = std::max(so_far, value);
    const float term = std::exp(value - (m ? *m : so_far));
    a.push_back(term / (own ? sum + term : sum));
    sum += term;
  }
  return a;
}

// The largest of all but the last score.
static float without_last(const std::vector<float>& x) {
  float m = -std::numeric_limits<float>::infinity();
  for (size_t i = 0; i + 1 < x.size(); ++i) m = std::max(m, x[i]);
  return m;
}

static const char* const kNoMax =
    "e^x without the maximum subtracted: above x = 88.7 it is Inf in fp32 (709.8 in double), and "
    "Inf / Inf is NaN";

static const char* const kDividedMeanwhile =
    "each weight was divided by the sum so far; the loop that divides comes after the one that "
    "sums";

static void check_softmax(const std::vector<float>& x) {
  const float m = *std::max_element(x.begin(), x.end());
  const float last = x.back(), m_before_last = without_last(x);
  float magnitude = 0;
  for (const float value : x) magnitude = std::max(magnitude, std::abs(value));
  std::vector<float> a(x.size(), NAN);
  safe_softmax(x, a);
  exercise::check_output(
      {"a"}, exercise::numbers(a), normalised(x, [&](float v) { return std::exp(v - m); }),
      {{"no-max", normalised(x, [](float v) { return std::exp(v); }), kNoMax},
       {"no-max", normalised(x, [](double v) { return std::exp(v); }), kNoMax},
       {"no-max", normalised<double>(x, [](double v) { return std::exp(v); }), kNoMax},
       {"not-divided", terms(x, [&](float v) { return std::exp(v - m); }),
        "these are the terms e^(x - m); the weights are divided by their sum"},
       {"sum-without-maximum",
        divided(
            x, [&](float v) { return std::exp(v - m); }, [](float v) { return std::exp(v); }),
        "the maximum is subtracted above the line and not in the sum; both need the same factor"},
       {"numerator-without-maximum",
        divided(
            x, [](float v) { return std::exp(v); }, [&](float v) { return std::exp(v - m); }),
        "the maximum is subtracted in the sum and not above the line; both need the same factor"},
       {"exponent-upside-down", normalised(x, [&](float v) { return std::exp(m - v); }),
        "this is e^(m - x), which is largest for the smallest score; it is e^(x - m)"},
       {"maximum-added", normalised(x, [&](float v) { return std::exp(v + m); }),
        "the maximum was added in the exponent; it is subtracted, so that no exponent is above 0"},
       {"minimum-for-maximum",
        normalised(x, [&](float v) { return std::exp(v - *std::min_element(x.begin(), x.end())); }),
        "the smallest score was subtracted; then the largest exponent is above 0, and may "
        "overflow"},
       {"first-score-subtracted", normalised(x, [&](float v) { return std::exp(v - x[0]); }),
        "the first score was subtracted, not the largest; an exponent above 88.7 overflows"},
       {"first-score-left-out",
        divided(
            x, [&](float v) { return std::exp(v - m); },
            [&, i = 0](float v) mutable { return i++ ? std::exp(v - m) : 0.0f; }),
        "the sum begins at the second score"},
       {"last-score-left-out",
        divided(
            x, [&](float v) { return std::exp(v - m); },
            [&, i = x.size()](float v) mutable { return --i ? std::exp(v - m) : 0.0f; }),
        "the sum ends before the last score"},
       {"last-score-left-out", normalised(x, [&](float v) { return std::exp(v - m_before_last); }),
        "the loop for the maximum ends before the last score; if that is the largest, its exponent "
        "is above 0"},
       {"last-term-for-sum",
        terms(x, [&](float v) { return std::exp(v - m) / std::exp(last - m); }),
        "the weights are divided by the last term, not by the sum of all: += and not ="},
       {"summed-while-looking", summed_meanwhile(x, m),
        "the sum was computed in the loop that looks for the maximum, so that each term is "
        "relative to the largest score so far; compute the maximum first, or correct the sum "
        "(02.2)"},
       {"divided-while-summing", divided_meanwhile(x, true, &m), kDividedMeanwhile},
       {"divided-while-summing", divided_meanwhile(x, false, &m), kDividedMeanwhile},
       {"divided-while-summing", divided_meanwhile(x, true, nullptr),
        "one loop does everything, so that each weight is relative to the largest score so far and "
        "divided by the sum so far; compute first the maximum, then the whole sum, then the "
        "weights"},
       {"sum-starts-at-one",
        divided(
            x, [&](float v) { return std::exp(v - m); },
            [&, i = 0](float v) mutable { return std::exp(v - m) + (i++ ? 0.0f : 1.0f); }),
        "the sum began with 1, and counts one term that is not there"},
       {"exponential-forgotten", normalised(x, [&](float v) { return v - m; }),
        "the terms are x - m; they are e^(x - m)"},
       {"max-outside-exponent", normalised(x, [&](float v) { return std::exp(v) - m; }),
        "this is e^x - m; the maximum is subtracted in the exponent: e^(x - m)"},
       {"largest-magnitude", normalised(x, [&](float v) { return std::exp(v - magnitude); }),
        "the largest |x| was subtracted; if that is a score far below zero, every term is 0, and 0 "
        "/ 0 is NaN"},
       {"max-starts-at-zero",
        normalised(x, [&](float v) { return std::exp(v - std::max(m, 0.0f)); }),
        "the maximum started at 0, or at numeric_limits<float>::min(), the smallest number above "
        "0; no score reaches it, every term is 0, and 0 / 0 is NaN"}});
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
