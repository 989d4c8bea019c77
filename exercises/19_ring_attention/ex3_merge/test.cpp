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

// The function as people write it: right as it stands here, each mistake is a change to it.
struct Way {
  enum Guard {
    kB,
    kNone,
    kNanToo,
    kBoth,
    kState,
    kCopied,
    kZeroed,
    kReset,
    kFirstDropped,
    kEitherDropped
  } guard = kB;
  enum Weight {
    kSigmoid,
    kHalf,
    kOfO,
    kOne,
    kUnsafe,
    kUnnormalised,
    kOfLse,
    kPowersOfE,
    kBase2
  } weight = kSigmoid;
  enum Update {
    kTowards,
    kAway,
    kScaled,
    kKept,
    kPlus,
    kSums,
    kRatio,
    kOfMaximum
  } update = kTowards;
  enum Lse {
    kSafe,
    kDirect,
    kDirectB,
    kExpLog,
    kMaximum,
    kAdded,
    kMean,
    kSignLost,
    kSigned,
    kSignedBack,
    kWithoutMaximum,
    kMinimum,
    kNotLogged,
    kLog2,
    kKeptLse,
    kMinus
  } lse_form = kSafe;
  bool lse_first = false;

  void merge_row(std::vector<float>& o, float& lse, const std::vector<float>& o_b,
                 float lse_b) const {
    const bool b_returns = guard == kB || guard == kZeroed || guard == kReset || guard == kCopied;
    if (b_returns && lse_b == -INF) {
      if (guard == kZeroed) std::fill(o.begin(), o.end(), 0.0f);
      if (guard == kReset) lse = -INF;
      return;
    }
    if (guard == kNanToo && !(lse_b > -INF)) return;
    if (guard == kBoth && lse == -INF && lse_b == -INF) return;
    if (guard == kFirstDropped && lse == -INF) return;
    if (guard == kEitherDropped && (lse == -INF || lse_b == -INF)) return;
    if ((guard == kState || guard == kCopied) && lse == -INF) {
      o = o_b, lse = lse_b;
      return;
    }
    const float difference = std::abs(lse - lse_b), base = std::max(lse, lse_b);
    const float merged = lse_form == kDirect           ? lse + std::log(1 + std::exp(lse_b - lse))
                         : lse_form == kDirectB        ? lse_b + std::log(1 + std::exp(lse - lse_b))
                         : lse_form == kExpLog         ? std::log(std::exp(lse) + std::exp(lse_b))
                         : lse_form == kMaximum        ? base
                         : lse_form == kAdded          ? lse + lse_b
                         : lse_form == kMean           ? (lse + lse_b) / 2
                         : lse_form == kSignLost       ? base + std::log1p(std::exp(difference))
                         : lse_form == kSigned         ? base + std::log1p(std::exp(lse_b - lse))
                         : lse_form == kSignedBack     ? base + std::log1p(std::exp(lse - lse_b))
                         : lse_form == kWithoutMaximum ? std::log1p(std::exp(-difference))
                         : lse_form == kMinimum
                             ? std::min(lse, lse_b) + std::log1p(std::exp(-difference))
                         : lse_form == kNotLogged ? base + 1 + std::exp(-difference)
                         : lse_form == kLog2      ? base + std::log2(1 + std::exp(-difference))
                         : lse_form == kMinus     ? base - std::log1p(std::exp(-difference))
                         : lse_form == kKeptLse   ? lse
                                                  : base + std::log1p(std::exp(-difference));
    if (lse_first) lse = merged;
    const float raised = std::exp(lse_b - lse);
    const float of_b = weight == kHalf           ? 0.5f
                       : weight == kOfO          ? 1 / (1 + std::exp(lse_b - lse))
                       : weight == kOne          ? 1
                       : weight == kUnsafe       ? raised / (1 + raised)
                       : weight == kUnnormalised ? raised
                       : weight == kOfLse        ? lse_b / (lse + lse_b)
                       : weight == kPowersOfE ? std::exp(lse_b) / (std::exp(lse) + std::exp(lse_b))
                       : weight == kBase2     ? 1 / (1 + std::exp2(lse - lse_b))
                                              : 1 / (1 + std::exp(lse - lse_b));
    const float e_a = std::exp(lse), e_b = std::exp(lse_b), of_larger = std::exp(lse - base);
    for (size_t d = 0; d < o.size(); ++d) {
      if (update == kSums) o[d] = (e_a * o[d] + e_b * o_b[d]) / (e_a + e_b);
      if (update == kRatio) o[d] = (o[d] + raised * o_b[d]) / (1 + raised);
      if (update == kOfMaximum) o[d] = of_larger * o[d] + std::exp(lse_b - base) * o_b[d];
      if (update == kTowards) o[d] -= of_b * (o[d] - o_b[d]);
      if (update == kAway) o[d] += of_b * (o[d] - o_b[d]);
      if (update == kScaled) o[d] = (1 - of_b) * o[d] + of_b * o_b[d];
      if (update == kKept) o[d] = o[d] + of_b * o_b[d];
      if (update == kPlus) o[d] += o_b[d];
    }
    if (!lse_first) lse = merged;
  }
};

// What the learner wrote, to be called as a Way is.
struct Answer {
  void merge_row(std::vector<float>& o, float& lse, const std::vector<float>& o_b,
                 float lse_b) const {
    ::merge_row(o, lse, o_b, lse_b);
  }
};

using Known = exercise::Known<Way>;

static const std::vector<Known>& all_known() {
  using W = Way;
  static const char* const direct =
      "ln(1 + e^x) was computed with an x that may be 1000, and e^1000 is Inf: take the larger LSE "
      "out, so that x is -|LSE - LSE_b|";
  static const char* const powers =
      "e^LSE itself was computed; it is Inf above 88.7 and 0 below about -103: only differences of "
      "LSE may go into exp";
  static const char* const unguarded =
      "a block without a key was merged with weight 0; its O_b may be NaN, and 0 * NaN is NaN; and "
      "-inf - (-inf) is NaN: return if LSE_b is -inf";
  static const char* const first_dropped =
      "nothing was merged while LSE is -inf, so it stays -inf; return if LSE_b is -inf, not if LSE "
      "is";
  static const char* const unsafe =
      "e^x / (1 + e^x) is Inf / Inf = NaN for a large x; 1 / (1 + e^-x) is the same number and "
      "safe";
  static const std::vector<Known> known = {
      {"averaged",
       {.weight = W::kHalf},
       "O became the mean of O and O_b; each counts as much as the sum it was divided by, e^LSE"},
      {"weights-exchanged",
       {.weight = W::kOfO},
       "O_b got the weight of O: the weight of O_b is sigmoid(LSE_b - LSE)"},
      {"replaced", {.weight = W::kOne}, "O became O_b; what was there before is lost"},
      {"sigmoid-overflows", {.weight = W::kUnsafe}, unsafe},
      {"sigmoid-overflows", {.weight = W::kUnsafe, .update = W::kScaled}, unsafe},
      {"sigmoid-overflows", {.guard = W::kState, .weight = W::kUnsafe}, unsafe},
      {"sigmoid-overflows", {.weight = W::kUnsafe, .lse_form = W::kDirect}, unsafe},
      {"sigmoid-overflows",
       {.guard = W::kState, .weight = W::kUnsafe, .lse_form = W::kDirect},
       unsafe},
      {"sigmoid-overflows", {.guard = W::kCopied, .weight = W::kUnsafe}, unsafe},
      {"sigmoid-overflows",
       {.guard = W::kCopied, .weight = W::kUnsafe, .lse_form = W::kDirect},
       unsafe},
      {"sigmoid-overflows", {.update = W::kRatio}, unsafe},
      {"sigmoid-overflows", {.update = W::kRatio, .lse_form = W::kDirect}, unsafe},
      {"sigmoid-overflows", {.guard = W::kCopied, .update = W::kRatio}, unsafe},
      {"sigmoid-overflows",
       {.guard = W::kCopied, .update = W::kRatio, .lse_form = W::kDirect},
       unsafe},
      {"sigmoid-overflows",
       {.guard = W::kNone, .update = W::kRatio, .lse_form = W::kDirect},
       unsafe},
      {"weight-not-normalised",
       {.update = W::kOfMaximum},
       "O and O_b got the weights e^(LSE - maximum) and e^(LSE_b - maximum), and were not divided "
       "by their sum"},
      {"weight-not-normalised",
       {.weight = W::kUnnormalised, .update = W::kKept},
       "e^(LSE_b - LSE) O_b was added to O; O is divided by its own sum already, so both have to "
       "be weighted, and the weights add up to 1"},
      {"weighted-by-lse",
       {.weight = W::kOfLse},
       "the weights are LSE themselves; those are logarithms"},
      {"powers-of-e", {.weight = W::kPowersOfE}, powers},
      {"powers-of-e", {.weight = W::kPowersOfE, .lse_form = W::kExpLog}, powers},
      {"powers-of-e", {.weight = W::kPowersOfE, .update = W::kScaled}, powers},
      {"powers-of-e",
       {.weight = W::kPowersOfE, .update = W::kScaled, .lse_form = W::kExpLog},
       powers},
      {"powers-of-e", {.lse_form = W::kExpLog}, powers},
      {"powers-of-e", {.update = W::kSums}, powers},
      {"powers-of-e", {.update = W::kSums, .lse_form = W::kExpLog}, powers},
      {"powers-of-e", {.guard = W::kCopied, .update = W::kSums}, powers},
      {"powers-of-e", {.guard = W::kCopied, .update = W::kSums, .lse_form = W::kExpLog}, powers},
      {"powers-of-e", {.guard = W::kNone, .update = W::kSums, .lse_form = W::kExpLog}, powers},
      {"powers-of-e", {.guard = W::kCopied, .weight = W::kPowersOfE}, powers},
      {"powers-of-e",
       {.guard = W::kCopied, .weight = W::kPowersOfE, .lse_form = W::kExpLog},
       powers},
      {"powers-of-two",
       {.weight = W::kBase2},
       "the weight was computed with powers of 2; LSE is a natural logarithm: powers of e"},
      {"away-from-o-b",
       {.update = W::kAway},
       "the weighted difference was added; O goes towards O_b: subtract w (O - O_b)"},
      {"o-not-weighted",
       {.update = W::kKept},
       "only O_b was weighted; O has the rest of the weight, 1 - w"},
      {"added-up", {.update = W::kPlus}, "O and O_b were added; both are divided already: weights"},
      {"log-of-one-plus-exp", {.lse_form = W::kDirect}, direct},
      {"log-of-one-plus-exp", {.lse_form = W::kDirectB}, direct},
      {"lse-is-maximum",
       {.lse_form = W::kMaximum},
       "LSE is the larger of the two; + ln(1 + e^(-|difference|))"},
      {"lse-added", {.lse_form = W::kAdded}, "the two LSE were added; what adds up is e^LSE"},
      {"lse-averaged",
       {.lse_form = W::kMean},
       "LSE is the mean of the two; it is larger than either, as e^LSE adds up"},
      {"difference-not-negated",
       {.lse_form = W::kSignLost},
       "e^|difference| was computed, so the difference counts twice, or overflows: e^(-|…|)"},
      {"absolute-value-forgotten",
       {.lse_form = W::kSigned},
       "e^(LSE_b - LSE) is in the logarithm, and the larger LSE in front of it: that is right "
       "while LSE is the larger; e^(-|difference|)"},
      {"absolute-value-forgotten",
       {.lse_form = W::kSignedBack},
       "e^(LSE - LSE_b) is in the logarithm, and the larger LSE in front of it: that is right "
       "while LSE_b is the larger; e^(-|difference|)"},
      {"maximum-forgotten",
       {.lse_form = W::kWithoutMaximum},
       "LSE is ln(1 + e^(-|difference|)); the larger LSE, which was taken out, has to be added"},
      {"minimum-for-maximum",
       {.lse_form = W::kMinimum},
       "the smaller LSE was taken out of the logarithm; with -|difference| it has to be the "
       "larger"},
      {"logarithm-forgotten",
       {.lse_form = W::kNotLogged},
       "1 + e^(-|difference|) was added to LSE; its logarithm"},
      {"logarithm-to-base-two",
       {.lse_form = W::kLog2},
       "a logarithm to base 2 was added; LSE is a natural one"},
      {"logarithm-subtracted",
       {.lse_form = W::kMinus},
       "ln(1 + e^…) was subtracted; LSE is at least the larger of the two"},
      {"lse-not-updated",
       {.lse_form = W::kKeptLse},
       "LSE has not changed, so at the next merge O weighs too little"},
      {"lse-updated-first",
       {.lse_first = true},
       "LSE was updated before the weight was computed from it; the weight needs the old one"},
      {"infinity-minus-infinity", {.guard = W::kNone}, unguarded},
      {"infinity-minus-infinity", {.guard = W::kNone, .update = W::kScaled}, unguarded},
      {"empty-o-read",
       {.guard = W::kBoth},
       "a block without a key has weight 0, and O_b was multiplied by it; it may be NaN, and 0 * "
       "NaN is NaN: return whenever LSE_b is -inf"},
      {"only-the-state-guarded",
       {.guard = W::kState},
       "the first block is copied, also if it has no key and its O_b is anything; and later blocks "
       "without a key are read: return if LSE_b is -inf"},
      {"first-block-dropped", {.guard = W::kFirstDropped}, first_dropped},
      {"first-block-dropped", {.guard = W::kEitherDropped}, first_dropped},
      {"nan-dropped",
       {.guard = W::kNanToo},
       "a block whose LSE is NaN was skipped like one without a key; a NaN has to come out"},
      {"empty-block-clears",
       {.guard = W::kZeroed},
       "a block without a key set O to 0; it changes nothing"},
      {"empty-block-forgets",
       {.guard = W::kReset},
       "a block without a key set LSE to -inf; it changes nothing"},
  };
  return known;
}

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
  const auto mistakes =
      exercise::mistakes(all_known(), [&](const Way& way) { return merged(way, start, blocks); });
  // Weights e^(lse - merged lse) are right too, and lse of 1000 is rounded to 6e-5.
  exercise::check_output({"merge", DIM + 1, 2e-4, {"o0", "o1", "o2", "lse"}},
                         merged(Answer{}, start, blocks), merged(Way{}, start, blocks), mistakes);
}

// The same where all numbers have to be NaN.
static void check_nan(const Block& start, const std::vector<Block>& blocks) {
  const auto shown = [&](const auto& way) {
    const Numbers all = merged(way, start, blocks);
    std::string text;
    for (size_t i = all.size() - DIM - 1; i < all.size(); ++i)
      text += std::isnan(all[i]) ? "NaN " : std::isinf(all[i]) ? "Inf " : "a number ";
    return text;
  };
  const auto looks = exercise::looks(all_known(), shown);
  const std::string got = shown(Answer{});
  exercise::check_shown(got == "NaN NaN NaN NaN ",
                        "a key gave NaN; expected NaN in o and in lse, got " + got, got, looks);
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

// What this test takes for right, from the sums in double.
TEST_CASE("the sums themselves") {
  const double a = 3.5, b = 2;
  const Numbers got = merged(Way{}, {{1, 2, 3}, 3.5f}, {{{-4, 0, 1}, 2}});
  const double sum = std::exp(a) + std::exp(b);
  CHECK(got[0] == doctest::Approx((std::exp(a) * 1 + std::exp(b) * -4) / sum));
  CHECK(got[2] == doctest::Approx((std::exp(a) * 3 + std::exp(b) * 1) / sum));
  CHECK(got[3] == doctest::Approx(std::log(sum)));
}
