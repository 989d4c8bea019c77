#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <one_fma.hpp>
#include <string>

#include "exercises/support/verdict.hpp"

using exercise::Numbers;

// The right answer, and each mistake as a change to it.
struct Way {
  exercise::Changes is;

  // The factor of m in the rows where it is folded.
  Float factor_of_m(Float c, Float scale) const {
    return is("m-alone") ? 1 : is("m-scale") ? scale : is("m-log2-e") ? LOG2_E : c;
  }
  Float exponent(Float s, Float m, Float c, Float scale) const {
    const double limit = is.number("limit", 4096);
    const bool hidden = m == NEG_INF, guarded = hidden && !is("infinity");
    const float size = static_cast<float>(m * c);
    const bool folds = (is("positive-only") ? size : std::fabs(size)) < limit || is("always") ||
                       (hidden && is("hidden-folded"));
    const Float early = guarded ? 0 : m;
    if (is("subtract-first")) return (s - early) * c;
    if (is("subtract-first-3")) return (s - early) * scale * LOG2_E;
    if (is("scaled-scores")) return s * scale * LOG2_E - early * scale * LOG2_E;
    if (!folds && is("dropped")) return s * c;
    if (!folds) return (s - early) * c;
    const Float m_c = early * factor_of_m(c, scale);
    return is("two-steps") ? s * c - m_c : fma(s, c, is("sign") ? m_c : -m_c);
  }
  std::vector<Float> weights(const std::vector<Float>& s, Float m, Float scale) const {
    const Float c = is("no-scale")                 ? LOG2_E
                    : is("no-log2-e") || is("exp") ? scale
                    : is("ln-2")                   ? scale * 0.693147181f
                                                   : scale * LOG2_E;
    std::vector<Float> p;
    for (const Float one : s) {
      const Float x = exponent(one, m, c, scale);
      p.push_back(is("exp") || is("exp-too") ? exp(x) : exp2(x));
    }
    return p;
  }
};

struct Answer {
  std::vector<Float> weights(const std::vector<Float>& s, Float m, Float scale) const {
    return ::weights(s, m, scale);
  }
};

static const exercise::Table MISTAKES(R"(
log2-e-forgotten: {,always }no-log2-e
  2^(scale (s - m)) was computed. For e^x, the exponent of 2 is x log2 e: c = scale * LOG2_E
log2-e-and-exp: {,always }exp-too
  the factor has log2 e, which belongs to exp2, but exp was called
ln-2-for-log2-e: {,always }ln-2
  the factor has ln 2, which is 1 / log2 e
scale-forgotten: {,always }no-scale
  the scores were not multiplied by `scale`
maximum-not-multiplied: {,always }m-alone
  the score was multiplied by c, but m was not. The exponent is s c - m c
maximum-not-multiplied: {,always }m-scale
  the score was multiplied by scale and log2 e, but m only by the scale. The exponent is s c - m c
maximum-not-multiplied: {,always }m-log2-e
  the score was multiplied by scale and log2 e, but m only by log2 e. The exponent is s c - m c
maximum-added: {,always }sign
  m c was added. The exponent is s c - m c, so the third argument of fma is -m c
every-row-folded: always infinity
  s c - m c was computed for every row, but two kinds of rows need something else: m = -inf, where
  -inf - (-inf) is NaN, and a large |m c|, which is rounded before the fma subtracts it
infinity-minus-infinity: {,hidden-folded }infinity; positive-only infinity
  a row whose keys are all hidden has m = -inf, and -inf - (-inf) is NaN. Subtract 0 there
large-maximum-folded: always; limit=1e5; limit=1e7
  a large m c was folded into the fma. It is rounded before, and its error, in powers of 2, is a
  factor of the weight. In rows whose |m c| is 4096 or more, subtract first: s - m
large-negative-maximum-folded: positive-only
  a large negative m c was folded into the fma, where its rounding error changes the weights: compare
  |m c| with 4096
large-maximum-dropped: dropped
  in rows with a large m c nothing was subtracted from the scores. The fma subtracts 0 there because
  s - m has come first
more-than-one-fma: subtract-first; two-steps; subtract-first-3
  right, but an ordinary row takes more than one operation per score before its exponential, for
  example a subtraction and a multiplication. fma(s, c, -m_c) is both in one
scaled-before-the-difference: scaled-scores; always two-steps
  m was subtracted after both had been multiplied. That is more than one operation per score, and
  large products are rounded before their difference is taken. In rows with a large m c, subtract
  first: s - m
exp-for-exp2: {,subtract-first }exp
  right, but exp was called. The GPU computes e^x as 2^(x log2 e), which is one more multiplication
  per score. Fold log2 e into c, and call exp2
)");

static std::vector<Float> scores(const std::vector<float>& values) {
  std::vector<Float> s;
  for (const float value : values) s.push_back(Float::score(value));
  return s;
}

static void check_row(const std::vector<float>& s, float m, float scale) {
  exercise::check_output<Way, Answer>({"p", 0, 1e-4}, MISTAKES, [&](const auto& way) {
    Numbers p;
    for (const Float weight : way.weights(scores(s), m, scale))
      p.push_back(static_cast<float>(weight));
    return p;
  });
}

static std::string per_score(int count, int scores) {
  return count % scores ? std::to_string(count) + " for " + std::to_string(scores) + " scores"
                        : std::to_string(count / scores) + " per score";
}

TEST_CASE("an ordinary row") {
  check_row({3, -2, 7.5f, 1, 8, -11, 6, 0.5f}, 8, 0.25f);
  check_row({-3, -2.5f, -7.5f, -4, -9, -1.5f}, -1.5f, 0.125f);
}
TEST_CASE("m is smaller than the largest score") { check_row({3, 12, 7.5f, 1}, 2, 0.5f); }
TEST_CASE("hidden keys") { check_row({3, NEG_INF, 7.5f, NEG_INF}, 7.5f, 0.25f); }
TEST_CASE("a row whose keys are all hidden") {
  check_row({NEG_INF, NEG_INF, NEG_INF}, NEG_INF, 0.25f);
}
TEST_CASE("a large maximum") {
  check_row({3000001, 3000000, 2999999, 2999990}, 3000001, 0.2f);
  check_row({200001, 200000, 199998}, 200001, 0.3f);
  check_row({9e9f, 9e9f - 4096, NEG_INF, 5}, 9e9f, 0.25f);
}
TEST_CASE("a large negative maximum") {
  check_row({-3000005, -3000001, -3000002, -3000010}, -3000001, 0.2f);
  check_row({-9.3e9f, -1e10f, NEG_INF}, -9.3e9f, 0.25f);
}
TEST_CASE("the operations of an ordinary row") {
  exercise::check_shown<Way, Answer>(
      "before the exponential, and exponentials", MISTAKES, [](const auto& way) {
        Float::counted = {};
        way.weights(scores({3, -2, 7.5f, 1, 8, -11, 6, 0.5f}), 8, 0.25f);
        const exercise::Operations& found = Float::counted;
        return per_score(found.arithmetic, 8) + ", " +
               (found.exp ? "exp: " + per_score(found.exp, 8)
                          : "exp2: " + per_score(found.exp2, 8));
      });
}
