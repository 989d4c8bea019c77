#include <doctest/doctest.h>

#include <online_softmax.hpp>
#include <vector>

#include "exercises/support/verdict.hpp"

using exercise::Numbers;

// m and l after each score, if next(m, l, x) updates them.
template <class Next>
static Numbers states(const std::vector<float>& x, Next next) {
  float m = -std::numeric_limits<float>::infinity(), l = 0;
  Numbers all;
  for (const float value : x) {
    next(m, l, value);
    all.insert(all.end(), {m, l});
  }
  return all;
}
// The same with m right, and l = next(l, x, old maximum, new maximum).
template <class Next>
static Numbers sums(const std::vector<float>& x, Next next) {
  return states(x, [&](float& m, float& l, float value) {
    const float m_new = std::max(m, value);
    l = next(l, value, m, m_new);
    m = m_new;
  });
}

static float e(float x) { return std::exp(x); }

static const char* const kRatio =
    "e^m / e^m' is e^(m - m') on paper; above 88.7 (709.8 in double) both are Inf, and Inf / Inf "
    "is NaN";

static void check_row(const std::vector<float>& x) {
  using F = float;
  Running state;
  Numbers got;
  for (const float value : x) {
    see(state, value);
    got.insert(got.end(), {state.m, state.l});
  }
  exercise::check_output(
      {"after score", 2, 1e-5, {"m", "l"}}, got,
      sums(x, [](F l, F x, F m, F m_new) { return l * e(m - m_new) + e(x - m_new); }),
      {{"no-rescale", sums(x, [](F l, F x, F, F m_new) { return l + e(x - m_new); }),
        "the old sum stays relative to the old maximum; the factor is missing, or it came out as 1 "
        "because m was new already"},
       {"rescale-on-new-term",
        sums(x, [](F l, F x, F m, F m_new) { return l + e(m - m_new) * e(x - m_new); }),
        "the factor e^(m - m') is on the new term; the new term is relative to m' already, the old "
        "sum is not"},
       {"old-maximum-in-exponent",
        sums(x, [](F l, F x, F m, F m_new) { return l * e(m - m_new) + e(x - m); }),
        "the new term is e^(x - m) with the maximum before x; the first one is e^(x + inf)"},
       {"old-maximum-in-exponent", sums(x, [](F l, F x, F m, F) { return l + e(x - m); }),
        "the new term is e^(x - m) with the maximum before x; the first one is e^(x + inf)"},
       {"factor-upside-down",
        sums(x, [](F l, F x, F m, F m_new) { return l * e(m_new - m) + e(x - m_new); }),
        "the old sum was multiplied by e^(m' - m); it must shrink when the maximum grows: e^(m - "
        "m')"},
       {"term-upside-down",
        sums(x, [](F l, F x, F m, F m_new) { return l * e(m - m_new) + e(m_new - x); }),
        "the new term is e^(m' - x); it is e^(x - m')"},
       {"factor-on-both",
        sums(x, [](F l, F x, F m, F m_new) { return (l + e(x - m_new)) * e(m - m_new); }),
        "the factor e^(m - m') is on the new term, too; that one is relative to m' already"},
       {"new-term-overflows",
        sums(x, [](F l, F x, F m, F m_new) { return l == 0 ? 1 : (l + e(x - m)) * e(m - m_new); }),
        "the new term was added as e^(x - m) with the old maximum, and the sum corrected after "
        "that: the same on paper, but e^(x - m) overflows where the maximum grows by more than "
        "88.7"},
       {"old-sum-forgotten", sums(x, [](F, F x, F, F m_new) { return e(x - m_new); }),
        "l is the last term alone; the old sum, times the factor, belongs to it"},
       {"new-term-forgotten", sums(x, [](F l, F, F m, F m_new) { return l * e(m - m_new); }),
        "l was moved to the new maximum, and the new term never added"},
       {"new-term-forgotten",
        sums(x, [](F l, F x, F m, F m_new) { return x > m ? l * e(m - m_new) : l + e(x - m_new); }),
        "l was moved to the new maximum, but its own term, e^(x - m') = 1, was never added"},
       {"only-new-maximum-counts",
        sums(x, [](F l, F x, F m, F m_new) { return x > m ? l * e(m - m_new) + 1 : l; }),
        "a score that is no new maximum was left out of l; it has a term, too"},
       {"factor-of-one-maximum",
        sums(x, [](F l, F x, F, F m_new) { return l * e(-m_new) + e(x - m_new); }),
        "the old sum was divided by e^m' alone; it was relative to m already, so the factor is "
        "e^(m - m')"},
       {"factor-of-one-maximum",
        sums(x, [](F l, F x, F m, F m_new) { return l * e(m) + e(x - m_new); }),
        "the old sum was multiplied by e^m alone; it moves from m to m', so the factor is e^(m - "
        "m')"},
       {"factor-of-score",
        sums(x, [](F l, F x, F m, F m_new) { return l * e(m - x) + e(x - m_new); }),
        "the factor is e^(m - x); if x is not the new maximum it must be 1: e^(m - m')"},
       {"factor-of-score",
        sums(x, [](F l, F x, F, F m_new) { return l * e(m_new - x) + e(x - m_new); }),
        "the factor is e^(m' - x), from the new maximum and the score, but it should be e^(m - "
        "m')"},
       {"old-sum-forgotten",
        sums(x, [](F l, F x, F m, F m_new) { return x > m ? l * e(m - m_new) + 1 : e(x - m_new); }),
        "a score that is no new maximum replaced l by its own term, which should be added with +="},
       {"old-sum-forgotten",
        sums(x, [](F l, F x, F m, F m_new) { return x > m ? 1 : l + e(x - m_new); }),
        "a new maximum made l its own term alone; the old sum, times the factor, belongs to it"},
       {"new-term-is-one", sums(x, [](F l, F, F m, F m_new) { return l * e(m - m_new) + 1; }),
        "1 was added, which is the new term only if x is the new maximum; otherwise it is e^(x - "
        "m')"},
       {"no-maximum", sums(x, [](F l, F x, F, F) { return l + e(x); }),
        "l is the sum of e^x, because no maximum was subtracted"},
       {"maximum-not-stored",
        states(x,
               [](F& m, F& l, F x) {
                 const F m_new = std::max(m, x);
                 l = l * e(m - m_new) + e(x - m_new);
               }),
        "m stays the same, because the new maximum is not stored"},
       {"maximum-replaced",
        states(x,
               [](F& m, F& l, F x) {
                 l = l * e(m - x) + 1;
                 m = x;
               }),
        "m became x, whether that is larger or not"},
       {"maximum-replaced",
        states(x,
               [](F& m, F& l, F x) {
                 const F m_new = std::max(m, x);
                 l = l * e(m - m_new) + e(x - m_new);
                 m = x;
               }),
        "m became x, whether that is larger or not"},
       {"max-starts-at-zero",
        states(x,
               [](F& m, F& l, F x) {
                 const F m_new = std::max({m, x, 0.0f});
                 l = l * e(m - m_new) + e(x - m_new);
                 m = m_new;
               }),
        "m is never below 0; all scores may be negative"},
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
TEST_CASE("the maximum grows by 250") { check_row({-200, 50, 3}); }
TEST_CASE("a long row") { check_row(exercise::random_numbers(300, 2, 3)); }
TEST_CASE("all scores are negative") { check_row({-5, -3, -4}); }
