#include <doctest/doctest.h>

#include <online_softmax.hpp>
#include <vector>

#include "exercises/support/verdict.hpp"

using exercise::Numbers;

static float e(float x) { return std::exp(x); }

// The right answer, and each mistake as a change to it.
struct Way {
  exercise::Changes is;

  float factor(float x, float m, float m_new) const {
    return is("no-rescale")              ? 1
           : is("factor-upside-down")    ? e(m_new - m)
           : is("divided-by-new")        ? e(-m_new)
           : is("times-old")             ? e(m)
           : is("factor-of-score")       ? e(m - x)
           : is("factor-of-new-maximum") ? e(m_new - x)
           : is("ratio-of-exponentials") ? e(m) / e(m_new)
           : is("ratio-in-double")
               ? static_cast<float>(std::exp(double{m}) / std::exp(double{m_new}))
               : e(m - m_new);
  }
  float term(float x, float m, float m_new) const {
    return is("old-maximum-in-exponent") ? e(x - m)
           : is("term-upside-down")      ? e(m_new - x)
           : is("new-term-is-one")       ? 1
           : is("no-maximum")            ? e(x)
                                         : e(x - m_new);
  }
  // m and l after each score.
  Numbers states(const std::vector<float>& scores) const {
    Numbers all;
    float m = -std::numeric_limits<float>::infinity(), l = 0;
    for (const float x : scores) {
      const bool grows = x > m;
      const float m_new = is("maximum-replaced")     ? x
                          : is("max-starts-at-zero") ? std::max({m, x, 0.0f})
                                                     : std::max(m, x);
      const float old = is(grows ? "lost-at-new-maximum" : "lost-elsewhere") ? 0 : l;
      const float rescale = factor(x, m, m_new);
      const float added =
          is(grows ? "no-term-of-new-maximum" : "no-term-elsewhere") ? 0 : term(x, m, m_new);
      l = is("factor-on-term") ? old + rescale * added
          : is("overflows")    ? (l == 0 ? 1 : (l + added) * rescale)
          : is("added-first")  ? (old + added) * rescale
                               : old * rescale + added;
      if (!is("maximum-not-stored")) m = is("score-stored") ? x : m_new;
      all.insert(all.end(), {m, l});
    }
    return all;
  }
};

// The learner's answer, to be called as a Way is.
struct Answer {
  Numbers states(const std::vector<float>& scores) const {
    Running state;
    Numbers all;
    for (const float x : scores) {
      see(state, x);
      all.insert(all.end(), {state.m, state.l});
    }
    return all;
  }
};

static const exercise::Table MISTAKES(R"(
no-rescale
  the old sum stays relative to the old maximum. The factor is missing, or it came out as 1 because
  m was new already
rescale-on-new-term: factor-on-term
  the factor e^(m - m') is on the new term. The new term is relative to m' already, the old sum is
  not
old-maximum-in-exponent: old-maximum-in-exponent; old-maximum-in-exponent no-rescale
  the new term is e^(x - m) with the maximum before x. The first one is e^(x + inf)
factor-upside-down
  the old sum was multiplied by e^(m' - m). It must shrink when the maximum grows: e^(m - m')
term-upside-down
  the new term is e^(m' - x). It should be e^(x - m')
factor-on-both: added-first
  the factor e^(m - m') is on the new term, too. That one is relative to m' already
new-term-overflows: overflows old-maximum-in-exponent
  the new term was added as e^(x - m) with the old maximum, and the sum corrected after that: the
  same on paper, but e^(x - m) overflows where the maximum grows by more than 88.7
old-sum-forgotten: lost-at-new-maximum lost-elsewhere
  l is the last term alone. The old sum, times the factor, belongs to it
new-term-forgotten: no-term-of-new-maximum no-term-elsewhere
  l was moved to the new maximum, and the new term never added
new-term-forgotten: no-term-of-new-maximum
  l was moved to the new maximum, but its own term, e^(x - m') = 1, was never added
only-new-maximum-counts: no-term-elsewhere
  a score that is no new maximum was left out of l. It has a term, too
factor-of-one-maximum: divided-by-new
  the old sum was divided by e^m' alone. It was relative to m already, so the factor is e^(m - m')
factor-of-one-maximum: times-old
  the old sum was multiplied by e^m alone. It moves from m to m', so the factor is e^(m - m')
factor-of-score
  the factor is e^(m - x). If x is not the new maximum it must be 1: e^(m - m')
factor-of-score: factor-of-new-maximum
  the factor is e^(m' - x), from the new maximum and the score, but it should be e^(m - m')
old-sum-forgotten: lost-elsewhere
  a score that is no new maximum replaced l by its own term, which should be added with +=
old-sum-forgotten: lost-at-new-maximum
  a new maximum made l its own term alone. The old sum, times the factor, belongs to it
new-term-is-one
  1 was added, which is the new term only if x is the new maximum. Otherwise it is e^(x - m')
no-maximum: no-maximum no-rescale
  l is the sum of e^x, because no maximum was subtracted
maximum-not-stored
  m stays the same, because the new maximum is not stored
maximum-replaced: maximum-replaced; score-stored
  m became x, whether that is larger or not
max-starts-at-zero
  m is never below 0. All scores may be negative
ratio-of-exponentials: ratio-of-exponentials; ratio-in-double
  e^m / e^m' is e^(m - m') on paper. Above 88.7 (709.8 in double) both are Inf, and Inf / Inf is NaN
)");

static void check_row(const std::vector<float>& x) {
  exercise::check_output<Way, Answer>({"after score", 2, 1e-5, {"m", "l"}}, MISTAKES,
                                      [&](const auto& answer) { return answer.states(x); });
}

TEST_CASE("the maximum grows each time") { check_row({1, 2, 3, 4, 5, 6}); }
TEST_CASE("the maximum comes first") { check_row({6, 5, 4, 3, 2, 1}); }
TEST_CASE("scores whose exponential overflows") { check_row({100, 150, 120}); }
TEST_CASE("scores too large for a double's exponential") { check_row({1000, 1500, 1200}); }
TEST_CASE("the maximum grows by 250") { check_row({-200, 50, 3}); }
TEST_CASE("a long row") { check_row(exercise::random_numbers(300, 2, 3)); }
TEST_CASE("all scores are negative") { check_row({-5, -3, -4}); }
