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

// The right answer, and each mistake as a change to it.
struct Way {
  exercise::Changes is;

  // The formulas of the README, in the same form.
  Part by_formula(const std::vector<Part>& parts, int dim) const {
    Part all{std::vector<float>(dim), NEG_INF};
    const auto counts = [&](const Part& part) { return is("empty-o-read") || part.LSE != NEG_INF; };
    float sum = 0;
    for (const Part& part : parts)
      if (counts(part)) sum += std::exp(part.LSE);
    if (!is.any("nothing-by-the-maximum", "by-either", "nothing-divided-by-nothing") && sum == 0)
      return all;
    all.LSE = std::log(sum);
    for (const Part& part : parts)
      for (int d = 0; counts(part) && d < dim; ++d)
        all.O[d] += std::exp(part.LSE - all.LSE) * part.O[d];
    return all;
  }

  Part combine_parts(const std::vector<Part>& parts, int dim) const {
    if (is("final")) return by_formula(parts, dim);
    float largest = is("from-zero") || is("none") ? 0
                    : is("first")                 ? parts[0].LSE
                    : is("minimum-for-maximum")   ? -NEG_INF
                                                  : NEG_INF;
    const auto lse_of = [&](const Part& part) {
      return is("empty-counted") && part.LSE == NEG_INF ? 0.0f : part.LSE;
    };
    for (const Part& part : parts) {
      if (is("minimum-for-maximum"))
        largest = std::min(largest, lse_of(part));
      else if (!is.any("none", "first", "running", "running-sum", "online"))
        largest = std::max(largest, lse_of(part));
    }
    Part all{std::vector<float>(dim), is("lse-of-nothing") ? 0 : NEG_INF};
    float sum = 0, added = 0, seen = 0;
    for (const Part& part : parts) {
      if (!is.any("empty-o-read", "nan-dropped", "empty-counted") && part.LSE == NEG_INF) continue;
      if (is("nan-dropped") && !(part.LSE > NEG_INF)) continue;
      if (is("running") || is("running-sum") || is("online")) {
        const float old = largest;
        largest = std::max(largest, part.LSE);
        const float rescale =
            is("unguarded") || old > NEG_INF ? std::exp(old - largest) : 1.0f;  // of nothing: of 0
        if (!is("running")) sum *= rescale;
        for (int d = 0; is("online") && d < dim; ++d) all.O[d] *= rescale;
      }
      const float minus =
          !is("unguarded") && largest == NEG_INF && !std::isnan(part.LSE) ? 0 : largest;
      const float factor = is("mean") || is("mean-of-all") || is("not-rescaled") ? 1
                           : is("weighted-by-lse")                               ? part.LSE
                           : is("weights-upside-down") ? std::exp(minus - lse_of(part))
                           : is("powers-of-two")       ? std::exp2(lse_of(part) - minus)
                                                       : std::exp(lse_of(part) - minus);
      sum += is("mean") || is("mean-of-all") || is("not-rescaled") ? std::exp(lse_of(part) - minus)
                                                                   : factor;
      added += lse_of(part);
      ++seen;
      for (int d = 0; d < dim; ++d) all.O[d] += factor * part.O[d];
    }
    const bool saw_nothing = is("nothing-by-the-maximum")       ? largest == NEG_INF
                             : is("by-either")                  ? largest == NEG_INF && seen == 0
                             : is("nothing-divided-by-nothing") ? false
                                                                : sum == 0;
    if (saw_nothing) {
      all.O.assign(dim, 0);
      return all;
    }
    for (float& o : all.O) {
      if (is("mean") || is("divided-by-the-parts"))
        o /= seen;
      else if (is("mean-of-all"))
        o /= static_cast<float>(parts.size());
      else if (!is("not-divided") && !is("not-rescaled"))
        o /= sum;
    }
    if (is("mean-of-two") || is("mean-with-first")) {  // one part after the other
      all.O.assign(dim, 0);
      bool first_part = is("mean-of-two") || parts[0].LSE != NEG_INF;
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
    all.LSE = is("lse-is-maximum")         ? largest
              : is("lse-without-maximum")  ? std::log(sum)
              : is("added")                ? added
              : is("mean-lse")             ? added / seen
              : is("lse-in-base-2")        ? largest + std::log2(sum)
              : is("logarithm-forgotten")  ? largest + sum
              : is("logarithm-subtracted") ? largest - std::log(sum)
              : is("without-maximum")      ? std::log(plain)
              : is("logarithm-twice")      ? std::log(natural)
                                           : natural;
    return all;
  }
};

// The learner's answer, to be called as a Way is.
struct Answer {
  Part combine_parts(const std::vector<Part>& parts, int dim) const {
    return ::combine_parts(parts, dim);
  }
};

static const exercise::Table MISTAKES(R"(
$habits = {,nothing-by-the-maximum,empty-o-read,nothing-by-the-maximum empty-o-read}
averaged: {mean,mean-of-all,mean-of-two,mean-with-first} $habits
  O is the mean of the parts' O. A part counts as much as the sum it was divided by: e^LSE_i
not-rescaled: not-rescaled $habits
  O is the plain sum of the parts' O. Each has to be multiplied by e^(LSE_i - LSE)
weighted-by-lse: weighted-by-lse $habits
  a part was weighted by its LSE. That is a logarithm: e^LSE_i
not-divided: not-divided $habits
  the weights are e^(LSE_i - largest), and their sum is not 1: divide O by it
divided-by-the-parts: divided-by-the-parts $habits
  the weighted sum was divided by the number of parts. Divide it by the sum of the weights
weights-upside-down: weights-upside-down $habits
  the weights are e^(largest - LSE_i). They should be e^(LSE_i - largest)
powers-of-two: powers-of-two $habits
  the weights are powers of 2. LSE is a natural logarithm: powers of e
no-maximum: {none,without-maximum,final} $habits; {none,final} nothing-divided-by-nothing;
    none by-either; final empty-o-read nothing-divided-by-nothing
  e^LSE leaves the range of a float, above 88.7 and below about -103: subtract the largest LSE
  first
maximum-starts-at-zero: from-zero $habits; from-zero nothing-divided-by-nothing
  the maximum starts at 0, so if all LSE are far below 0 all weights are 0: start at -inf
minimum-for-maximum: minimum-for-maximum $habits
  the smallest LSE was subtracted, so the weights overflow: the largest
first-lse-for-maximum: first $habits; first unguarded
  the first LSE is subtracted. If it is far below the others, or -inf, e^ of the difference
  overflows: the largest
sum-not-rescaled: {running,running-sum} $habits
  the maximum was raised during the sum, and the terms added earlier belong to the old maximum.
  Multiply them by e^(old - new), or find the maximum first
infinity-minus-infinity: online empty-o-read unguarded; online empty-o-read unguarded
    nothing-divided-by-nothing; empty-o-read unguarded nothing-divided-by-nothing
  where no part has had a key yet, the largest LSE is -inf, and -inf - (-inf) is NaN. And the O of
  parts without a key is read: skip them
nothing-divided-by-nothing
  where no part has a key, the sum of the weights is 0, and 0/0 is NaN: O is 0, LSE is -inf
empty-o-read
  a part without a key has weight 0, and its O was multiplied by it. 0 * NaN is NaN: skip it
empty-counted
  a part without a key counts as if its LSE were 0, so it has a weight, and its O is anything
nan-dropped
  a part whose LSE is NaN was skipped with those without a key. Skip -inf and nothing else
nothing-by-the-maximum
  the maximum decides that no part has a key. A maximum drops a NaN, so it is -inf as well if every
  key there is gave NaN
lse-is-maximum: lse-is-maximum $habits
  LSE is the largest of the parts' LSE. Add ln of the sum of the weights
lse-without-maximum: lse-without-maximum $habits
  LSE is ln of the sum of the weights, and those are relative to the largest LSE: add it
lse-added: {added,mean-lse} $habits
  the LSE of the parts were added, or their mean was taken. The sum is one of e^LSE, and LSE is its
  ln
lse-in-base-2: lse-in-base-2 $habits
  log2 of the sum was added. LSE is a natural logarithm
logarithm-forgotten: logarithm-forgotten $habits
  the sum of the weights was added to the largest LSE. Add its logarithm
logarithm-subtracted: logarithm-subtracted $habits
  ln of the sum was subtracted. LSE is at least the largest of the parts'
logarithm-twice: logarithm-twice $habits
  the logarithm was taken twice. LSE is largest + ln of the sum
lse-of-nothing
  the LSE of no key is ln 0 = -inf. With 0 it would count as a key elsewhere
)");

static Numbers row(const Part& part) {
  Numbers result = exercise::numbers(part.O);
  result.push_back(part.LSE);
  return result;
}

static void check_parts(const std::vector<Part>& parts) {
  exercise::check_output<Way, Answer>(
      {"combined", 0, 2e-5, {"O0", "O1", "O2", "LSE"}}, MISTAKES,
      [&](const auto& way) { return row(way.combine_parts(parts, DIM)); });
}

// The same where all numbers have to be NaN.
static void check_nan(const std::vector<Part>& parts) {
  const auto shown = [&](const auto& way) {
    std::string text;
    for (const double number : row(way.combine_parts(parts, DIM)))
      text += std::string(text.empty() ? "" : ", ") + (std::isnan(number)   ? "NaN"
                                                       : std::isinf(number) ? "Inf"
                                                                            : "a number");
    return text;
  };
  CHECK(shown(Way{}) == "NaN, NaN, NaN, NaN");
  exercise::check_shown<Way, Answer>("O and LSE where a key gave NaN", MISTAKES, shown);
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
static const Part kNoKeyYet{{7, -50, 1e30f}, NEG_INF};  // old memory
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
