#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <merge.hpp>
#include <string>
#include <vector>

#include "exercises/support/verdict.hpp"

using exercise::Numbers;

constexpr int DIM = 3;
constexpr float NOT_A_NUMBER = std::numeric_limits<float>::quiet_NaN();

// The right answer, and each mistake as a change to it.
struct Way {
  exercise::Changes is;

  void merge_row(std::vector<float>& o, float& lse, const std::vector<float>& o_b,
                 float lse_b) const {
    if (lse_b == -INF && !is.any("none", "nan-dropped", "empty-o-read", "only-the-state-guarded",
                                 "first-dropped", "either-dropped")) {
      if (is("empty-block-clears")) std::fill(o.begin(), o.end(), 0.0f);
      if (is("empty-block-forgets")) lse = -INF;
      return;
    }
    if (is("nan-dropped") && !(lse_b > -INF)) return;
    if (is("empty-o-read") && lse == -INF && lse_b == -INF) return;
    if (is("first-dropped") && lse == -INF) return;
    if (is("either-dropped") && (lse == -INF || lse_b == -INF)) return;
    if ((is("only-the-state-guarded") || is("copied")) && lse == -INF) {
      o = o_b, lse = lse_b;
      return;
    }
    const float difference = std::abs(lse - lse_b), base = std::max(lse, lse_b);
    const float merged = is("direct")           ? lse + std::log(1 + std::exp(lse_b - lse))
                         : is("direct-b")       ? lse_b + std::log(1 + std::exp(lse - lse_b))
                         : is("exp-log")        ? std::log(std::exp(lse) + std::exp(lse_b))
                         : is("lse-is-maximum") ? base
                         : is("lse-added")      ? lse + lse_b
                         : is("lse-averaged")   ? (lse + lse_b) / 2
                         : is("difference-not-negated") ? base + std::log1p(std::exp(difference))
                         : is("signed")                 ? base + std::log1p(std::exp(lse_b - lse))
                         : is("signed-back")            ? base + std::log1p(std::exp(lse - lse_b))
                         : is("maximum-forgotten")      ? std::log1p(std::exp(-difference))
                         : is("minimum-for-maximum")
                             ? std::min(lse, lse_b) + std::log1p(std::exp(-difference))
                         : is("logarithm-forgotten")   ? base + 1 + std::exp(-difference)
                         : is("logarithm-to-base-two") ? base + std::log2(1 + std::exp(-difference))
                         : is("logarithm-subtracted")  ? base - std::log1p(std::exp(-difference))
                         : is("lse-not-updated")       ? lse
                                                       : base + std::log1p(std::exp(-difference));
    if (is("lse-updated-first")) lse = merged;
    const float raised = std::exp(lse_b - lse);
    const float of_b = is("averaged")            ? 0.5f
                       : is("weights-exchanged") ? 1 / (1 + std::exp(lse_b - lse))
                       : is("replaced")          ? 1
                       : is("unsafe")            ? raised / (1 + raised)
                       : is("unnormalised")      ? raised
                       : is("weighted-by-lse")   ? lse_b / (lse + lse_b)
                       : is("powers-of-e")   ? std::exp(lse_b) / (std::exp(lse) + std::exp(lse_b))
                       : is("powers-of-two") ? 1 / (1 + std::exp2(lse - lse_b))
                                             : 1 / (1 + std::exp(lse - lse_b));
    const float e_a = std::exp(lse), e_b = std::exp(lse_b), of_larger = std::exp(lse - base);
    for (size_t d = 0; d < o.size(); ++d) {
      if (is("sums")) o[d] = (e_a * o[d] + e_b * o_b[d]) / (e_a + e_b);
      if (is("ratio")) o[d] = (o[d] + raised * o_b[d]) / (1 + raised);
      if (is("of-maximum")) o[d] = of_larger * o[d] + std::exp(lse_b - base) * o_b[d];
      if (!is.any("away-from-o-b", "scaled", "o-not-weighted", "added-up", "sums", "ratio",
                  "of-maximum"))
        o[d] -= of_b * (o[d] - o_b[d]);
      if (is("away-from-o-b")) o[d] += of_b * (o[d] - o_b[d]);
      if (is("scaled")) o[d] = (1 - of_b) * o[d] + of_b * o_b[d];
      if (is("o-not-weighted")) o[d] = o[d] + of_b * o_b[d];
      if (is("added-up")) o[d] += o_b[d];
    }
    if (!is("lse-updated-first")) lse = merged;
  }
};

// The learner's answer, to be called as a Way is.
struct Answer {
  void merge_row(std::vector<float>& o, float& lse, const std::vector<float>& o_b,
                 float lse_b) const {
    ::merge_row(o, lse, o_b, lse_b);
  }
};

static const exercise::Table MISTAKES(R"(
averaged
  O became the mean of O and O_b. Each counts as much as the sum it was divided by, e^LSE
weights-exchanged
  O_b got the weight of O: the weight of O_b is sigmoid(LSE_b - LSE)
replaced
  O became O_b, and the old O is lost
sigmoid-overflows: unsafe; unsafe scaled; only-the-state-guarded unsafe; unsafe direct;
    only-the-state-guarded unsafe direct; copied unsafe; copied unsafe direct; ratio; ratio direct;
    copied ratio; copied ratio direct; none ratio direct
  e^x / (1 + e^x) is Inf / Inf = NaN for a large x. 1 / (1 + e^-x) is the same number and safe
weight-not-normalised: of-maximum
  O and O_b got the weights e^(LSE - maximum) and e^(LSE_b - maximum), and were not divided by
  their sum
weight-not-normalised: unnormalised o-not-weighted
  e^(LSE_b - LSE) O_b was added to O. O is divided by its own sum already, so both have to be
  weighted, and the weights add up to 1
weighted-by-lse
  the weights are LSE themselves. Those are logarithms
powers-of-e: powers-of-e; powers-of-e exp-log; powers-of-e scaled; powers-of-e scaled exp-log;
    exp-log; sums; sums exp-log; copied sums; copied sums exp-log; none sums exp-log; copied
    powers-of-e; copied powers-of-e exp-log
  e^LSE itself was computed. It is Inf above 88.7 and 0 below about -103: only differences of LSE
  may go into exp
powers-of-two
  the weight was computed with powers of 2. LSE is a natural logarithm: powers of e
away-from-o-b
  the weighted difference was added. O goes towards O_b: subtract w (O - O_b)
o-not-weighted
  only O_b was weighted. O has the rest of the weight, 1 - w
added-up
  O and O_b were added. Both are divided already: weights
log-of-one-plus-exp: direct; direct-b
  ln(1 + e^x) was computed with an x that may be 1000, and e^1000 is Inf: take the larger LSE out,
  so that x is -|LSE - LSE_b|
lse-is-maximum
  LSE is the larger of the two. Add ln(1 + e^(-|difference|))
lse-added
  the two LSE were added. The sum is one of e^LSE
lse-averaged
  LSE is the mean of the two. It is larger than either, because e^LSE adds up
difference-not-negated
  e^|difference| was computed, so the difference counts twice, or overflows: e^(-|…|)
absolute-value-forgotten: signed
  e^(LSE_b - LSE) is in the logarithm, with the larger LSE before it. This is right only while LSE
  is the larger: use e^(-|difference|)
absolute-value-forgotten: signed-back
  e^(LSE - LSE_b) is in the logarithm, with the larger LSE before it. This is right only while LSE_b
  is the larger: use e^(-|difference|)
maximum-forgotten
  LSE is ln(1 + e^(-|difference|)). The larger LSE, which was taken out, has to be added
minimum-for-maximum
  the smaller LSE was taken out of the logarithm. With -|difference| it has to be the larger
logarithm-forgotten
  1 + e^(-|difference|) was added to LSE. Add its logarithm
logarithm-to-base-two
  a logarithm to base 2 was added. LSE is a natural one
logarithm-subtracted
  ln(1 + e^…) was subtracted. LSE is at least the larger of the two
lse-not-updated
  LSE has not changed, so at the next merge O weighs too little
lse-updated-first
  LSE was updated before the weight was computed from it. The weight needs the old one
infinity-minus-infinity: none; none scaled
  a block without a key was merged with weight 0. Its O_b may be NaN, and 0 * NaN is NaN. And -inf -
  (-inf) is NaN: return if LSE_b is -inf
empty-o-read
  a block without a key has weight 0, and O_b was multiplied by it. It may be NaN, and 0 * NaN is
  NaN: return whenever LSE_b is -inf
only-the-state-guarded
  the first block is copied even if it has no key and its O_b is undefined, and later blocks without
  a key are read: return if LSE_b is -inf
first-block-dropped: first-dropped; either-dropped
  nothing was merged while LSE is -inf, so it stays -inf. Return if LSE_b is -inf, not if LSE is
nan-dropped
  a block whose LSE is NaN was skipped like one without a key. A NaN must reach the result
empty-block-clears
  a block without a key set O to 0. It has to change nothing
empty-block-forgets
  a block without a key set LSE to -inf. It has to change nothing
)");

struct Block {
  std::vector<float> o;
  float lse;
};

// A state that takes up one block after the other.
template <class Any>
static Numbers merged(const Any& way, const Block& start, const std::vector<Block>& blocks) {
  Block state = start;
  Numbers result;
  for (const Block& one : blocks) {
    way.merge_row(state.o, state.lse, one.o, one.lse);
    for (const float number : state.o) result.push_back(number);
    result.push_back(state.lse);
  }
  return result;
}

static const Block kNothingSeen{{0, 0, 0}, -INF};
static const Block kNoKey{{NOT_A_NUMBER, NOT_A_NUMBER, NOT_A_NUMBER}, -INF};
static const Block kOldMemory{{7, -50, 1e30f}, -INF};
static const Block kNan{{NOT_A_NUMBER, NOT_A_NUMBER, NOT_A_NUMBER}, NOT_A_NUMBER};

static void check_blocks(const Block& start, const std::vector<Block>& blocks) {
  // The tolerance is large because weights e^(lse - merged lse) are right too, and fp32 rounds an
  // lse of 1000 to a multiple of 6e-5.
  exercise::check_output<Way, Answer>({"merge", DIM + 1, 2e-4, {"o0", "o1", "o2", "lse"}}, MISTAKES,
                                      [&](const auto& way) { return merged(way, start, blocks); });
}

// The same where all numbers have to be NaN.
static void check_nan(const Block& start, const std::vector<Block>& blocks) {
  const auto shown = [&](const auto& way) {
    const Numbers all = merged(way, start, blocks);
    std::string text;
    for (size_t i = all.size() - DIM - 1; i < all.size(); ++i)
      text += std::string(text.empty() ? "" : ", ") + (std::isnan(all[i])   ? "NaN"
                                                       : std::isinf(all[i]) ? "Inf"
                                                                            : "a number");
    return text;
  };
  CHECK(shown(Way{}) == "NaN, NaN, NaN, NaN");
  exercise::check_shown<Way, Answer>("o and lse after a key that gave NaN", MISTAKES, shown);
}

TEST_CASE("equal weights") { check_blocks({{1, 2, 3}, 0.5f}, {{{3, -2, 4}, 0.5f}}); }
TEST_CASE("30 and 10 of 40") {
  check_blocks({{2, -1, 0}, std::log(30.0f)}, {{{6, 3, 1}, std::log(10.0f)}});
}
TEST_CASE("the first keys") { check_blocks(kNothingSeen, {{{4, 5, -6}, 1.25f}}); }
TEST_CASE("four steps of a ring") {
  check_blocks(kNothingSeen,
               {{{1, 2, 3}, 2}, {{-4, 0, 1}, 3.5f}, {{5, 5, 5}, -1}, {{0, 8, -2}, 4}});
}
TEST_CASE("lse of 300 and of -300") {
  check_blocks({{1, 2, 3}, 300}, {{{3, -2, 4}, 299}, {{0, 7, 1}, 301}});
  check_blocks({{1, 2, 3}, -300}, {{{3, -2, 4}, -299}, {{0, 7, 1}, -301}});
}
TEST_CASE("a difference of 1000") {
  check_blocks({{1, 2, 3}, 0}, {{{3, -2, 4}, 1000}, {{9, 9, 9}, 0}});
  check_blocks({{1, 2, 3}, 500}, {{{3, -2, 4}, -500}});
  check_blocks(kNothingSeen, {{{1, 2, 3}, -1000}, {{4, 4, 5}, -1000}});
}
TEST_CASE("a block without a key") {
  check_blocks({{1, 2, 3}, 0.75f}, {kOldMemory, {{4, 4, 5}, 1}});
  check_blocks({{1, 2, 3}, 0.75f}, {kNoKey, {{4, 4, 5}, 1}});
}
TEST_CASE("no key so far") {
  check_blocks(kNothingSeen, {kOldMemory});
  check_blocks(kNothingSeen, {kNoKey, kOldMemory, {{4, 4, 5}, 1}, kNoKey});
}
TEST_CASE("a NaN comes out") {
  check_nan({{1, 2, 3}, 0.75f}, {kNan});
  check_nan(kNothingSeen, {kNan});
  check_nan({{1, 2, 3}, 0.75f}, {kNan, {{4, 4, 5}, 1}});
}

// The answer that this test expects, compared with sums in double.
TEST_CASE("the sums themselves") {
  const double a = 3.5, b = 2;
  const Numbers got = merged(Way{}, {{1, 2, 3}, 3.5f}, {{{-4, 0, 1}, 2}});
  const double sum = std::exp(a) + std::exp(b);
  CHECK(got[0] == doctest::Approx((std::exp(a) * 1 + std::exp(b) * -4) / sum));
  CHECK(got[2] == doctest::Approx((std::exp(a) * 3 + std::exp(b) * 1) / sum));
  CHECK(got[3] == doctest::Approx(std::log(sum)));
}
