#include <doctest/doctest.h>

#include <online_softmax.hpp>
#include <vector>

#include "exercises/support/verdict.hpp"

using exercise::Numbers;

// l after each score, if `next(l, x, old maximum, new maximum)` is what happens to it.
template <class Next>
static Numbers sums(const std::vector<float>& x, Next next) {
  float m = -std::numeric_limits<float>::infinity(), l = 0;
  Numbers all;
  for (const float value : x) {
    const float m_new = std::max(m, value);
    l = next(l, value, m, m_new);
    m = m_new;
    all.push_back(l);
  }
  return all;
}

static float e(float x) { return std::exp(x); }

static const char* const kRatio =
    "e^m / e^m' is e^(m - m') on paper; above 88.7 (709.8 in double) both are Inf, and Inf / Inf "
    "is NaN";

static void check_row(const std::vector<float>& x) {
  using F = float;
  Running state;
  Numbers m, l, maxima;
  for (const float value : x) {
    see(state, value);
    m.push_back(state.m);
    l.push_back(state.l);
    maxima.push_back(maxima.empty() ? value : std::max<double>(maxima.back(), value));
  }
  exercise::check_output({"m after score"}, m, maxima);
  exercise::check_output(
      {"l after score"}, l,
      sums(x, [](F l, F x, F m, F m_new) { return l * e(m - m_new) + e(x - m_new); }),
      {{"no-rescale", sums(x, [](F l, F x, F, F m_new) { return l + e(x - m_new); }),
        "the old sum stays relative to the old maximum; the factor is missing, or it came out as 1 "
        "because m was new already"},
       {"rescale-on-new-term",
        sums(x, [](F l, F x, F m, F m_new) { return l + e(m - m_new) * e(x - m_new); }),
        "the factor e^(m - m') is on the new term; the new term is relative to m' already, the "
        "old "
        "sum is not"},
       {"old-maximum-in-exponent",
        sums(x, [](F l, F x, F m, F m_new) { return l * e(m - m_new) + e(x - m); }),
        "the new term is e^(x - m) with the maximum before x; the first one is e^(x + inf)"},
       {"old-maximum-in-exponent", sums(x, [](F l, F x, F m, F) { return l + e(x - m); }),
        "the new term is e^(x - m) with the maximum before x; the first one is e^(x + inf)"},
       {"ratio-of-exponentials",
        sums(x, [](F l, F x, F m, F m_new) { return l * (e(m) / e(m_new)) + e(x - m_new); }),
        kRatio},
       {"ratio-of-exponentials",
        sums(x,
             [](F l, F x, double m, double m_new) {
               return static_cast<F>(l * (std::exp(m) / std::exp(m_new)) + std::exp(x - m_new));
             }),
        kRatio}});
}

TEST_CASE("the maximum grows each time") { check_row({1, 2, 3, 4, 5, 6}); }
TEST_CASE("the maximum comes first") { check_row({6, 5, 4, 3, 2, 1}); }
TEST_CASE("scores whose exponential overflows") { check_row({100, 150, 120}); }
TEST_CASE("scores too large for a double's exponential") { check_row({1000, 1500, 1200}); }
TEST_CASE("a long row") { check_row(exercise::random_numbers(300, 2, 3)); }
