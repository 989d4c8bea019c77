#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <combine.hpp>
#include <limits>
#include <string>
#include <vector>

#include "exercises/support/verdict.hpp"

using exercise::Numbers;

constexpr int DIM = 3;
constexpr float NOT_A_NUMBER = std::numeric_limits<float>::quiet_NaN();

// The function as people write it: right as it stands here, each mistake is a change to it.
struct Way {
  enum Base { kLargest, kNone, kFromZero, kFirst, kRunning, kRunningSum, kOnline, kMinimum };
  Base base = kLargest;
  enum Weight {
    kExp,
    kMean,
    kMeanOfAll,
    kMeanOfTwo,
    kMeanWithFirst,
    kOfLse,
    kUpsideDown,
    kOne,
    kBase2,
    kFinal
  } weight = kExp;
  enum Empty { kSkipped, kRead, kNanDropped, kLseZero } empty = kSkipped;
  bool guarded = true;  // -inf is not subtracted
  bool divided = true, divided_by_parts = false;
  enum Nothing { kBySum, kByLargest, kByEither, kNever } nothing = kBySum;
  enum Lse {
    kNatural,
    kIsLargest,
    kWithoutLargest,
    kAdded,
    kMeanLse,
    kLog2,
    kSumNotLogged,
    kMinus,
    kLoggedTwice,
    kWithoutMaximum,
    kZeroOfNothing
  } lse = kNatural;

  // The formulas of the README, as they stand there.
  Part by_formula(const std::vector<Part>& parts, int dim) const {
    Part all{std::vector<float>(dim), NEG_INF};
    const auto counts = [&](const Part& part) { return empty == kRead || part.LSE != NEG_INF; };
    float sum = 0;
    for (const Part& part : parts)
      if (counts(part)) sum += std::exp(part.LSE);
    if (nothing == kBySum && sum == 0) return all;
    all.LSE = std::log(sum);
    for (const Part& part : parts)
      for (int d = 0; counts(part) && d < dim; ++d)
        all.O[d] += std::exp(part.LSE - all.LSE) * part.O[d];
    return all;
  }

  Part combine_parts(const std::vector<Part>& parts, int dim) const {
    if (weight == kFinal) return by_formula(parts, dim);
    float largest = base == kFromZero || base == kNone ? 0
                    : base == kFirst                   ? parts[0].LSE
                    : base == kMinimum                 ? -NEG_INF
                                                       : NEG_INF;
    const auto lse_of = [&](const Part& part) {
      return empty == kLseZero && part.LSE == NEG_INF ? 0.0f : part.LSE;
    };
    for (const Part& part : parts) {
      if (base == kLargest || base == kFromZero) largest = std::max(largest, lse_of(part));
      if (base == kMinimum) largest = std::min(largest, lse_of(part));
    }
    Part all{std::vector<float>(dim), lse == kZeroOfNothing ? 0 : NEG_INF};
    float sum = 0, added = 0, seen = 0;
    for (const Part& part : parts) {
      if (empty == kSkipped && part.LSE == NEG_INF) continue;
      if (empty == kNanDropped && !(part.LSE > NEG_INF)) continue;
      if (base == kRunning || base == kRunningSum || base == kOnline) {
        const float old = largest;
        largest = std::max(largest, part.LSE);
        const float rescale =
            !guarded || old > NEG_INF ? std::exp(old - largest) : 1.0f;  // of nothing: of 0
        if (base != kRunning) sum *= rescale;
        for (int d = 0; base == kOnline && d < dim; ++d) all.O[d] *= rescale;
      }
      const float minus = guarded && largest == NEG_INF && !std::isnan(part.LSE) ? 0 : largest;
      const float factor = weight == kMean || weight == kMeanOfAll || weight == kOne ? 1
                           : weight == kOfLse                                        ? part.LSE
                           : weight == kUpsideDown ? std::exp(minus - lse_of(part))
                           : weight == kBase2      ? std::exp2(lse_of(part) - minus)
                                                   : std::exp(lse_of(part) - minus);
      sum += weight == kMean || weight == kMeanOfAll || weight == kOne
                 ? std::exp(lse_of(part) - minus)
                 : factor;
      added += lse_of(part);
      ++seen;
      for (int d = 0; d < dim; ++d) all.O[d] += factor * part.O[d];
    }
    const bool saw_nothing = nothing == kByLargest  ? largest == NEG_INF
                             : nothing == kByEither ? largest == NEG_INF && seen == 0
                             : nothing == kNever    ? false
                                                    : sum == 0;
    if (saw_nothing) {
      all.O.assign(dim, 0);
      return all;
    }
    for (float& o : all.O) {
      if (weight == kMean || divided_by_parts)
        o /= seen;
      else if (weight == kMeanOfAll)
        o /= static_cast<float>(parts.size());
      else if (divided && weight != kOne)
        o /= sum;
    }
    if (weight == kMeanOfTwo || weight == kMeanWithFirst) {  // one part after the other
      all.O.assign(dim, 0);
      bool first_part = weight == kMeanOfTwo || parts[0].LSE != NEG_INF;
      for (const Part& part : parts) {
        if (part.LSE == NEG_INF) continue;
        for (int d = 0; d < dim; ++d)
          all.O[d] = first_part ? part.O[d] : (all.O[d] + part.O[d]) / 2;
        first_part = false;
      }
    }
    const float natural = largest + std::log(sum);
    float plain = 0;
    for (const Part& part : parts) plain += std::exp(part.LSE);
    all.LSE = lse == kIsLargest        ? largest
              : lse == kWithoutLargest ? std::log(sum)
              : lse == kAdded          ? added
              : lse == kMeanLse        ? added / seen
              : lse == kLog2           ? largest + std::log2(sum)
              : lse == kSumNotLogged   ? largest + sum
              : lse == kMinus          ? largest - std::log(sum)
              : lse == kWithoutMaximum ? std::log(plain)
              : lse == kLoggedTwice    ? std::log(natural)
                                       : natural;
    return all;
  }
};

// What the learner wrote, to be called as a Way is.
struct Answer {
  Part combine_parts(const std::vector<Part>& parts, int dim) const {
    return ::combine_parts(parts, dim);
  }
};

using Known = exercise::Known<Way>;

static const std::vector<Known>& all_known() {
  using W = Way;
  static const char* const averaged =
      "O is the mean of the parts' O; a part counts as much as the sum it was divided by: e^LSE_i";
  static const char* const no_maximum =
      "e^LSE leaves the range of a float, above 88.7 and below about -103: subtract the largest "
      "LSE first";
  static const char* const from_zero =
      "the maximum starts at 0, so if all LSE are far below 0 all weights are 0: start at -inf";
  static const char* const first =
      "the first LSE is subtracted; if it is far below the others, or -inf, e^ of the difference "
      "overflows: the largest";
  static const char* const added =
      "the LSE of the parts were added, or their mean was taken; what adds up is e^LSE: ln of its "
      "sum";
  static const char* const not_rescaled =
      "the maximum was raised on the way, and what was added up before belongs to the old one: "
      "multiply it by e^(old - new), or look for the maximum first";
  static const char* const minus =
      "where no part has had a key yet, the largest LSE is -inf, and -inf - (-inf) is NaN; and the "
      "O of parts without a key is read: skip them";
  static const std::vector<Known> known = {
      {"averaged", {.weight = W::kMean}, averaged},
      {"averaged", {.weight = W::kMeanOfAll}, averaged},
      {"averaged", {.weight = W::kMeanOfTwo}, averaged},
      {"averaged", {.weight = W::kMeanWithFirst}, averaged},
      {"not-rescaled",
       {.weight = W::kOne},
       "O is the plain sum of the parts' O; each has to be multiplied by e^(LSE_i - LSE)"},
      {"weighted-by-lse",
       {.weight = W::kOfLse},
       "a part was weighted by its LSE; that is a logarithm: e^LSE_i"},
      {"not-divided",
       {.divided = false},
       "the weights are e^(LSE_i - largest), and their sum is not 1: divide O by it"},
      {"divided-by-the-parts",
       {.divided_by_parts = true},
       "the weighted sum was divided by the number of parts; by the sum of the weights"},
      {"weights-upside-down",
       {.weight = W::kUpsideDown},
       "the weights are e^(largest - LSE_i); e^(LSE_i - largest)"},
      {"powers-of-two",
       {.weight = W::kBase2},
       "the weights are powers of 2; LSE is a natural logarithm: powers of e"},
      {"no-maximum", {.base = W::kNone}, no_maximum},
      {"no-maximum", {.base = W::kNone, .nothing = W::kNever}, no_maximum},
      {"no-maximum", {.base = W::kNone, .nothing = W::kByEither}, no_maximum},
      {"no-maximum", {.lse = W::kWithoutMaximum}, no_maximum},
      {"no-maximum", {.weight = W::kFinal}, no_maximum},
      {"no-maximum", {.weight = W::kFinal, .nothing = W::kNever}, no_maximum},
      {"no-maximum", {.weight = W::kFinal, .empty = W::kRead}, no_maximum},
      {"no-maximum", {.weight = W::kFinal, .empty = W::kRead, .nothing = W::kNever}, no_maximum},
      {"maximum-starts-at-zero", {.base = W::kFromZero}, from_zero},
      {"maximum-starts-at-zero", {.base = W::kFromZero, .nothing = W::kNever}, from_zero},
      {"minimum-for-maximum",
       {.base = W::kMinimum},
       "the smallest LSE was subtracted, so the weights overflow: the largest"},
      {"first-lse-for-maximum", {.base = W::kFirst}, first},
      {"first-lse-for-maximum", {.base = W::kFirst, .guarded = false}, first},
      {"sum-not-rescaled", {.base = W::kRunning}, not_rescaled},
      {"sum-not-rescaled", {.base = W::kRunningSum}, not_rescaled},
      {"infinity-minus-infinity", {.base = W::kOnline, .empty = W::kRead, .guarded = false}, minus},
      {"infinity-minus-infinity",
       {.base = W::kOnline, .empty = W::kRead, .guarded = false, .nothing = W::kNever},
       minus},
      {"infinity-minus-infinity",
       {.empty = W::kRead, .guarded = false, .nothing = W::kNever},
       minus},
      {"nothing-divided-by-nothing",
       {.nothing = W::kNever},
       "where no part has a key, the sum of the weights is 0, and 0/0 is NaN: O is 0, LSE is -inf"},
      {"empty-o-read",
       {.empty = W::kRead},
       "a part without a key has weight 0, and its O was multiplied by it; 0 * NaN is NaN: skip "
       "it"},
      {"empty-counted",
       {.empty = W::kLseZero},
       "a part without a key counts as if its LSE were 0, so it has a weight, and its O is "
       "anything"},
      {"nan-dropped",
       {.empty = W::kNanDropped},
       "a part whose LSE is NaN was skipped with those without a key; skip -inf and nothing else"},
      {"nothing-by-the-maximum",
       {.nothing = W::kByLargest},
       "the maximum decides that no part has a key; a maximum drops a NaN, so it is -inf as well "
       "if every key there is gave NaN"},
      {"lse-is-maximum",
       {.lse = W::kIsLargest},
       "LSE is the largest of the parts' LSE; + ln of the sum of the weights"},
      {"lse-without-maximum",
       {.lse = W::kWithoutLargest},
       "LSE is ln of the sum of the weights, and those are relative to the largest LSE: add it"},
      {"lse-added", {.lse = W::kAdded}, added},
      {"lse-added", {.lse = W::kMeanLse}, added},
      {"lse-in-base-2", {.lse = W::kLog2}, "log2 of the sum was added; LSE is a natural logarithm"},
      {"logarithm-forgotten",
       {.lse = W::kSumNotLogged},
       "the sum of the weights was added to the largest LSE; its logarithm"},
      {"logarithm-subtracted",
       {.lse = W::kMinus},
       "ln of the sum was subtracted; LSE is at least the largest of the parts'"},
      {"logarithm-twice",
       {.lse = W::kLoggedTwice},
       "the logarithm was taken twice; LSE = largest + ln of the sum"},
      {"lse-of-nothing",
       {.lse = W::kZeroOfNothing},
       "the LSE of no key is ln 0 = -inf; with 0 it would count as a key elsewhere"},
  };
  return known;
}

// Each, and those of weights and logarithms also with what people write beside them: whether there
// was a key is asked of the maximum, and the O of parts without a key is read.
static const std::vector<Known>& with_habits() {
  static const std::vector<Known> all = [] {
    std::vector<Known> known = all_known();
    for (const Known& one : all_known()) {
      const Way& way = one.way;
      if (way.empty != Way::kSkipped || way.nothing != Way::kBySum || !way.guarded ||
          way.lse == Way::kZeroOfNothing)
        continue;
      for (const auto& [nothing, empty] : {std::pair{Way::kByLargest, Way::kSkipped},
                                           {Way::kBySum, Way::kRead},
                                           {Way::kByLargest, Way::kRead}}) {
        known.push_back(one);
        known.back().way.nothing = nothing;
        known.back().way.empty = empty;
      }
    }
    return known;
  }();
  return all;
}

static Numbers row(const Part& part) {
  Numbers result = exercise::numbers(part.O);
  result.push_back(part.LSE);
  return result;
}

static void check_parts(const std::vector<Part>& parts) {
  const auto mistakes = exercise::mistakes(
      with_habits(), [&](const Way& way) { return row(way.combine_parts(parts, DIM)); });
  exercise::check_output({"combined", 0, 2e-5, {"O0", "O1", "O2", "LSE"}},
                         row(Answer{}.combine_parts(parts, DIM)),
                         row(Way{}.combine_parts(parts, DIM)), mistakes);
}

// The same where all numbers have to be NaN.
static void check_nan(const std::vector<Part>& parts) {
  const auto shown = [&](const auto& way) {
    std::string text;
    for (const double number : row(way.combine_parts(parts, DIM)))
      text += std::isnan(number) ? "NaN " : std::isinf(number) ? "Inf " : "a number ";
    return text;
  };
  const auto looks = exercise::looks(with_habits(), shown);
  const std::string got = shown(Answer{});
  exercise::check_shown(got == "NaN NaN NaN NaN ",
                        "a key gave NaN; expected NaN in O and in LSE, got " + got, got, looks);
}

// The exact sums of these scores and values, in double.
static Part attention(const std::vector<double>& scores, int first_value) {
  Part part{std::vector<float>(DIM), NEG_INF};
  const double largest = *std::max_element(scores.begin(), scores.end());
  double l = 0;
  for (const double s : scores) l += std::exp(s - largest);
  for (int d = 0; d < DIM; ++d) {
    double o = 0;
    for (size_t j = 0; j < scores.size(); ++j)
      o += std::exp(scores[j] - largest) / l * ((first_value + static_cast<int>(j)) * 5 % 7 + d);
    part.O[d] = static_cast<float>(o);
  }
  part.LSE = static_cast<float>(largest + std::log(l));
  return part;
}

static const Part kNoKey{{NOT_A_NUMBER, NOT_A_NUMBER, NOT_A_NUMBER}, NEG_INF};
static const Part kNoKeyYet{{7, -50, 1e30f}, NEG_INF};  // what lay in memory
static const Part kNan{{NOT_A_NUMBER, NOT_A_NUMBER, NOT_A_NUMBER}, NOT_A_NUMBER};

TEST_CASE("one part is the answer") { check_parts({{{1, 2, 3}, 0.5f}}); }
TEST_CASE("two parts that are worth the same") { check_parts({{{1, 2, 3}, 2}, {{3, 8, -1}, 2}}); }
TEST_CASE("the README's parts") {
  check_parts({{{2, 2, 2}, std::log(30.0f)}, {{6, 6, 6}, std::log(10.0f)}, kNoKey});
}
TEST_CASE("nine keys at once, or in three parts") {
  const std::vector<double> scores = {0.5, -1, 2, 3, 0.25, -2, 1.5, 4, -0.5};
  std::vector<Part> parts;
  for (const auto& [begin, end] : {std::pair{0, 2}, {2, 6}, {6, 9}})
    parts.push_back(attention({scores.begin() + begin, scores.begin() + end}, begin));
  check_parts(parts);
  const Numbers whole = row(attention(scores, 0)), combined = row(Way{}.combine_parts(parts, DIM));
  exercise::check_output({"all keys", 0, 2e-5, {"O0", "O1", "O2", "LSE"}}, combined, whole);
}
TEST_CASE("the last part is worth most") {
  check_parts({{{1, 2, 3}, -3}, {{-2, 0, 5}, 1}, {{4, 4, 0}, 6}});
}
TEST_CASE("LSE around 300") { check_parts({{{1, 2, 3}, 300}, {{5, 0, 1}, 299}}); }
TEST_CASE("LSE around -300") { check_parts({{{1, 2, 3}, -299}, {{5, 0, 1}, -300}}); }
TEST_CASE("LSE far apart") { check_parts({{{1, 2, 3}, -200}, {{5, 0, 1}, 200}, {{0, 1, 0}, 0}}); }
TEST_CASE("no key in the first part") { check_parts({kNoKey, {{1, 2, 3}, 1}, {{5, 0, 1}, 2}}); }
TEST_CASE("no key in the last parts") {
  check_parts({{{1, 2, 3}, -1.5f}, {{5, 0, 1}, 0.5f}, kNoKeyYet, kNoKeyYet});
}
TEST_CASE("no key in any part") { check_parts({kNoKey, kNoKeyYet, kNoKey}); }
TEST_CASE("no key, and only one part") { check_parts({kNoKeyYet}); }
TEST_CASE("a NaN among numbers") { check_nan({{{1, 2, 3}, 1}, kNan, {{5, 0, 1}, 2}}); }
TEST_CASE("a NaN is all there is") { check_nan({kNan, kNoKey}); }
