#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cross_entropy.hpp>
#include <limits>
#include <string>
#include <vector>

#include "exercises/support/verdict.hpp"

using exercise::Numbers;

constexpr float INF = std::numeric_limits<float>::infinity();
constexpr float NOT_A_NUMBER = std::numeric_limits<float>::quiet_NaN();

struct Result {
  double loss;
  Numbers dx;  // [rows, vocabulary]
};

struct Case {
  int vocabulary;
  std::vector<float> logits;
  std::vector<int> targets;
};

// The function as people write it: right as it stands here, each mistake is a change to it.
struct Way {
  enum Maximum {
    kOfRow,
    kNone,
    kOfBatch,
    kFromZero,
    kOfRowZero,
    kSoFar,
    kNotAddedBack,
    kAddedOnly,
    kOnlyForGradient
  } maximum = kOfRow;
  enum Loss {
    kFromLogits,
    kFromProbability,
    kOfQuotient,
    kEpsilon,
    kOneHotSum,
    kNotLogged,
    kNoTarget,
    kNegative,
    kLog2,
    kLog10,
    kSumInLog2,
    kSumInLog10,
    kOfDx,
    kOfWeight,
    kOfSoftmax
  } loss_form = kFromLogits;
  enum Mean { kOverRows, kSum, kLast, kOverVocabulary, kOverAll } mean = kOverRows;
  enum Target { kOfOwnRow, kOfFirstTarget, kOfNextTarget, kReadInRowZero } target = kOfOwnRow;
  enum OneHot {
    kSubtracted,
    kForgotten,
    kAdded,
    kTurned,
    kInRowZero,
    kDivisorOfHot,
    kDivisorOfSoftmax,
    kBeforeDividing,
    kOnlyTarget,
    kProbability,
    kAtRowNumber,
    kJacobian,
    kJacobianTurned
  } one_hot = kSubtracted;
  enum Divisor { kRows, kNotDivided, kVocabulary, kElements, kZero } divisor = kRows;
  enum Softmax {
    kDivided,
    kNotNormalised,
    kNotInGradient,
    kPowersOfTwo,
    kTwice,
    kOfLse,
    kSumKept
  } softmax = kDivided;
  bool transposed = false, nothing_written = false;
  double epsilon = 0;

  Result run(const Case& c) const {
    Numbers x = exercise::numbers(c.logits);
    const int rows = static_cast<int>(c.targets.size()), columns = c.vocabulary;
    const double of_batch = *std::max_element(x.begin(), x.end());
    double total = 0, l = 0, so_far = -INF;
    for (int i = 0; i < rows; ++i) {
      const auto at = [&](int j) { return transposed ? j * rows + i : i * columns + j; };
      const int next = i == rows - 1 ? 0 : c.targets[i + 1];
      const int t = target == kOfFirstTarget  ? c.targets[0]
                    : target == kOfNextTarget ? next
                                              : c.targets[i];
      double m = x[at(0)];
      for (int j = 0; j < columns; ++j) m = std::max(m, x[at(j)]);
      so_far = std::max(so_far, m);
      if (maximum == kNone) m = 0;
      if (maximum == kOfBatch) m = of_batch;
      if (maximum == kOfRowZero) m = *std::max_element(x.begin(), x.begin() + columns);
      if (maximum == kFromZero) m = std::max(m, 0.0);
      if (maximum == kSoFar) m = so_far;
      const double x_target = target == kReadInRowZero ? x[t] : x[at(t)];
      Numbers logits, weights;
      if (softmax != kSumKept) l = 0;
      double unsafe = 0;  // the sum without the maximum taken out
      for (int j = 0; j < columns; ++j) {
        logits.push_back(x[at(j)]);
        weights.push_back(softmax == kPowersOfTwo ? std::exp2(x[at(j)] - m)
                                                  : std::exp(x[at(j)] - m));
        l += weights[j];
        unsafe += std::exp(x[at(j)]);
      }
      const double rounded_lse =
          static_cast<float>(static_cast<float>(m) + std::log(static_cast<float>(l)));
      if (softmax == kNotNormalised) l = 1;
      const double p_target = weights[t] / l;
      const double over = divisor == kNotDivided   ? 1
                          : divisor == kVocabulary ? columns
                          : divisor == kElements   ? rows * columns
                                                   : rows;
      for (int j = 0; j < columns && !nothing_written; ++j) {
        const double p = softmax == kTwice           ? std::exp(weights[j] - m) / l
                         : softmax == kOfLse         ? std::exp(logits[j] - rounded_lse)
                         : softmax == kNotInGradient ? weights[j]
                                                     : weights[j] / l;
        const double hot = one_hot == kAtRowNumber ? j == i : j == t;
        x[at(j)] = one_hot == kForgotten || one_hot == kInRowZero ? p / over
                   : one_hot == kAdded                            ? (p + hot) / over
                   : one_hot == kTurned                           ? (hot - p) / over
                   : one_hot == kDivisorOfHot                     ? p - hot / over
                   : one_hot == kDivisorOfSoftmax                 ? p / over - hot
                   : one_hot == kBeforeDividing                   ? (p - hot / l) / over
                   : one_hot == kOnlyTarget                       ? hot * (p - 1) / over
                   : one_hot == kProbability                      ? (p - hot * p_target) / over
                   : one_hot == kJacobian                         ? p_target * (p - hot) / over
                   : one_hot == kJacobianTurned                   ? p_target * (hot - p) / over
                                                                  : (p - hot) / over;
        if (divisor == kZero && rows > 1) x[at(j)] *= 0;
      }
      if (one_hot == kInRowZero) x[t] -= 1.0 / rows;
      const double lse = maximum == kNotAddedBack      ? std::log(l)
                         : maximum == kOnlyForGradient ? std::log(unsafe)
                                                       : m + std::log(l);
      double loss = maximum == kAddedOnly           ? m - x_target
                    : loss_form == kFromProbability ? -std::log(p_target < 1e-45 ? 0 : p_target)
                    : loss_form == kOfQuotient      ? -std::log(weights[t] / l)
                    : loss_form == kEpsilon         ? -std::log(p_target + epsilon)
                    : loss_form == kNotLogged       ? -p_target
                    : loss_form == kNoTarget        ? lse
                    : loss_form == kNegative        ? x_target - lse
                    : loss_form == kLog2            ? (lse - x_target) / std::log(2)
                    : loss_form == kLog10           ? (lse - x_target) / std::log(10)
                    : loss_form == kSumInLog2       ? m + std::log2(l) - x_target
                    : loss_form == kSumInLog10      ? m + std::log10(l) - x_target
                    : loss_form == kOfDx            ? lse - x[at(t)]
                    : loss_form == kOfWeight        ? lse - weights[t]
                    : loss_form == kOfSoftmax       ? lse - p_target
                                                    : lse - x_target;
      if (loss_form == kOneHotSum) {
        loss = 0;
        for (int j = 0; j < columns; ++j) loss += (j == t) * (lse - logits[j]);
      }
      total = mean == kLast ? loss : total + loss;
    }
    if (mean == kOverRows || mean == kLast) total /= rows;
    if (mean == kOverVocabulary) total /= columns;
    if (mean == kOverAll) total /= rows * columns;
    return {total, x};
  }
};

// What the learner wrote, to be called as a Way is.
struct Answer {
  Result run(const Case& c) const {
    // Who reads past the end finds a 0 there, and no crash.
    const size_t columns = c.vocabulary, more = columns * (columns + c.targets.size()) + 16;
    std::vector<float> logits(c.logits.size() + more, 0);
    std::copy(c.logits.begin(), c.logits.end(), logits.begin());
    logits.resize(c.logits.size());
    std::vector<int> targets(c.targets.size() + more, 0);
    std::copy(c.targets.begin(), c.targets.end(), targets.begin());
    targets.resize(c.targets.size());
    const double loss = cross_entropy(logits, targets, c.vocabulary);
    return {loss, exercise::numbers(logits)};
  }
};

using Known = exercise::Known<Way>;

static const std::vector<Known>& all_known() {
  using W = Way;
  static const char* const no_maximum =
      "e^x of the logits themselves was computed; it is Inf above 88.7 and all of a row's are 0 "
      "below about -103: subtract the row's maximum first, for the loss and for the gradient";
  static const char* const row_zero =
      "the target was looked for in row 0; that of row i is at i * vocabulary + target";
  static const char* const epsilon =
      "a small number was added to the probability so that its logarithm is not -Inf; the loss of "
      "an improbable target is then that number's, and the gradient another loss's: m + ln l - "
      "x[target]";
  static const char* const read_late =
      "x[target] was read after something else had been written in its place; keep it before the "
      "row is overwritten";
  static const std::vector<Known> known = {
      {"maximum-not-subtracted", {.maximum = W::kNone}, no_maximum},
      {"maximum-not-subtracted", {.maximum = W::kOnlyForGradient}, no_maximum},
      {"maximum-not-subtracted", {.maximum = W::kNone, .loss_form = W::kOfQuotient}, no_maximum},
      {"maximum-of-all-rows",
       {.maximum = W::kOfBatch},
       "the maximum of all rows was subtracted; a row far below it is all 0 then, and ln 0 is "
       "-Inf: each row its own"},
      {"maximum-of-the-rows-so-far",
       {.maximum = W::kSoFar},
       "the maximum was not begun anew for each row; a row far below the ones before it is all 0 "
       "then"},
      {"sum-of-the-rows-so-far",
       {.softmax = W::kSumKept},
       "the sum l was not begun anew for each row, and goes on with that of the row before"},
      {"maximum-of-row-zero",
       {.maximum = W::kOfRowZero},
       "the maximum was looked for in row 0 for every row, and its gradient stands there by then; "
       "each row has its own"},
      {"maximum-starts-at-zero",
       {.maximum = W::kFromZero},
       "the maximum began at 0, so in a row of negative logits nothing was taken out, and all e^x "
       "may be 0: begin with a number of the row"},
      {"maximum-not-added-back",
       {.maximum = W::kNotAddedBack},
       "the loss is ln l - x[target] with the maximum taken out of l alone; it has to be taken out "
       "of both, or added to ln l"},
      {"loss-is-the-margin",
       {.maximum = W::kAddedOnly},
       "the loss is m - x[target], 0 whenever the target is the most probable; ln l is missing"},
      {"logarithm-of-zero",
       {.loss_form = W::kFromProbability},
       "the loss went by way of the probability, which is 0 in fp32 for an improbable target, and "
       "-ln 0 is Inf: m + ln l - x[target] never takes the logarithm of something below 1"},
      {"epsilon-in-the-logarithm", {.loss_form = W::kEpsilon, .epsilon = 1e-12}, epsilon},
      {"epsilon-in-the-logarithm", {.loss_form = W::kEpsilon, .epsilon = 1e-10}, epsilon},
      {"epsilon-in-the-logarithm", {.loss_form = W::kEpsilon, .epsilon = 1e-9}, epsilon},
      {"epsilon-in-the-logarithm", {.loss_form = W::kEpsilon, .epsilon = 1e-8}, epsilon},
      {"epsilon-in-the-logarithm", {.loss_form = W::kEpsilon, .epsilon = 1e-7}, epsilon},
      {"epsilon-in-the-logarithm", {.loss_form = W::kEpsilon, .epsilon = 1e-6}, epsilon},
      {"zero-times-infinity",
       {.loss_form = W::kOneHotSum},
       "the loss was summed over the whole row with weights 0 and 1; a logit of -Inf makes it 0 * "
       "Inf = NaN: read the target alone"},
      {"logarithm-forgotten",
       {.loss_form = W::kNotLogged},
       "the loss is -p of the target; the gradient p - 1 belongs to -ln p"},
      {"target-forgotten",
       {.loss_form = W::kNoTarget},
       "the loss is ln of the sum alone; x[target] has to be subtracted, otherwise it does not "
       "matter what came next"},
      {"loss-negated",
       {.loss_form = W::kNegative},
       "the loss is ln p, which is never above 0; -ln p, so that less is better"},
      {"logarithm-to-base-two",
       {.loss_form = W::kLog2},
       "the loss is in bits; the gradient p - 1 belongs to the natural logarithm"},
      {"logarithm-to-base-ten",
       {.loss_form = W::kLog10},
       "a logarithm to base 10 was taken; the gradient p - 1 belongs to the natural one"},
      {"logarithm-to-base-two",
       {.loss_form = W::kSumInLog2},
       "a logarithm to base 2 was taken of the sum, which is one of powers of e: ln l"},
      {"logarithm-to-base-ten",
       {.loss_form = W::kSumInLog10},
       "a logarithm to base 10 was taken of the sum, which is one of powers of e: ln l"},
      {"powers-of-two",
       {.softmax = W::kPowersOfTwo},
       "powers of 2 were computed; softmax has powers of e"},
      {"target-read-too-late", {.loss_form = W::kOfDx}, read_late},
      {"target-read-too-late", {.loss_form = W::kOfWeight}, read_late},
      {"target-read-too-late", {.loss_form = W::kOfSoftmax}, read_late},
      {"sum-for-mean",
       {.mean = W::kSum},
       "the losses of all rows were added; the mean: divide by the number of rows, as the gradient "
       "is"},
      {"sum-for-mean",
       {.mean = W::kSum, .divisor = W::kNotDivided},
       "loss and gradient are those of the sum over the rows; of the mean both are divided by the "
       "number of rows"},
      {"last-row-only",
       {.mean = W::kLast},
       "the loss is the last row's divided by the number of rows; the rows' losses have to be "
       "added"},
      {"mean-over-the-vocabulary",
       {.mean = W::kOverVocabulary},
       "the loss was divided by the vocabulary; there is one loss a row: divide by the number of "
       "rows"},
      {"mean-over-the-vocabulary",
       {.mean = W::kOverVocabulary, .divisor = W::kVocabulary},
       "loss and gradient were divided by the vocabulary; there is one loss a row: divide by the "
       "number of rows"},
      {"mean-over-all-logits",
       {.mean = W::kOverAll},
       "the loss was divided by the number of logits; there is one loss a row: divide by the "
       "number of rows"},
      {"mean-over-all-logits",
       {.mean = W::kOverAll, .divisor = W::kElements},
       "loss and gradient were divided by the number of logits; there is one loss a row: divide by "
       "the number of rows"},
      {"target-of-row-zero",
       {.target = W::kOfFirstTarget},
       "all rows were given the target of row 0; targets[row]"},
      {"target-of-the-next-row",
       {.target = W::kOfNextTarget},
       "each row was given the next row's target; the targets are shifted already: targets[row] is "
       "what came after the character of that row"},
      {"target-in-row-zero", {.target = W::kReadInRowZero}, row_zero},
      {"target-in-row-zero", {.one_hot = W::kInRowZero}, row_zero},
      {"target-in-row-zero", {.target = W::kReadInRowZero, .one_hot = W::kInRowZero}, row_zero},
      {"rows-and-columns-exchanged",
       {.transposed = true},
       "the logits were read as [vocabulary, rows]; column j of row i is at i * vocabulary + j"},
      {"one-hot-forgotten",
       {.one_hot = W::kForgotten},
       "the gradient is softmax alone, so that every logit sinks; the target's has to rise: "
       "subtract 1 there"},
      {"one-hot-added",
       {.one_hot = W::kAdded},
       "1 was added at the target; that makes it less probable: subtract it"},
      {"gradient-negated",
       {.one_hot = W::kTurned},
       "the gradient has the other sign; it is softmax - one-hot, and the step goes against it"},
      {"one-hot-at-the-row-number",
       {.one_hot = W::kAtRowNumber},
       "1 was subtracted in column i of row i; the column is the target's: targets[i]"},
      {"softmax-not-divided",
       {.one_hot = W::kDivisorOfHot},
       "only the 1 at the target was divided by the number of rows; softmax, too: (softmax - "
       "one-hot) / rows"},
      {"one-hot-not-divided",
       {.one_hot = W::kDivisorOfSoftmax},
       "softmax was divided by the number of rows, the 1 at the target was not: (softmax - "
       "one-hot) / rows"},
      {"one-hot-before-the-division",
       {.one_hot = W::kBeforeDividing},
       "the 1 at the target was subtracted from e^(x - m), before the division by l; subtract it "
       "from softmax: e^(x - m) / l - 1"},
      {"target-only",
       {.one_hot = W::kOnlyTarget},
       "only the target's logit got a gradient; the others make it improbable: softmax there"},
      {"target-set-to-zero",
       {.one_hot = W::kProbability},
       "the gradient at the target is 0; softmax - 1"},
      {"gradient-not-divided",
       {.divisor = W::kNotDivided},
       "the gradient is that of the sum; the loss is a mean: divide by the number of rows"},
      {"gradient-over-the-vocabulary",
       {.divisor = W::kVocabulary},
       "the gradient was divided by the vocabulary; by the number of rows, as the loss is"},
      {"gradient-over-all-logits",
       {.divisor = W::kElements},
       "the gradient was divided by the number of logits; by the number of rows, as the loss is"},
      {"exponentiated-twice",
       {.softmax = W::kTwice},
       "e^(x - m) was computed of numbers that were e^(x - m) already: where they are stored, the "
       "logits are gone"},
      {"softmax-from-a-rounded-logarithm",
       {.softmax = W::kOfLse},
       "softmax was computed as e^(x - (m + ln l)); around 10000 fp32 rounds m + ln l to 0.001, "
       "and the probabilities are off by as much: e^(x - m) / l"},
      {"gradient-not-written",
       {.nothing_written = true},
       "the logits are still there; the gradient takes their place"},
      {"divided-as-whole-numbers",
       {.divisor = W::kZero},
       "the gradient is 0 as soon as there are two rows: 1 / rows of whole numbers is 0"},
      {"not-normalised",
       {.softmax = W::kNotNormalised},
       "e^(x - m) was taken for softmax; it has to be divided by the row's sum l, and ln l belongs "
       "to the loss"},
      {"not-normalised",
       {.softmax = W::kNotInGradient},
       "the gradient has e^(x - m) where softmax should be; it has to be divided by the row's sum "
       "l"},
      {"derivative-of-the-probability",
       {.one_hot = W::kJacobian},
       "the gradient is that of the target's probability, with the other sign; the loss is -ln p, "
       "so that it is divided by p: what is left is softmax - one-hot"},
      {"derivative-of-the-probability",
       {.one_hot = W::kJacobianTurned},
       "the gradient is that of the target's probability; the loss is -ln p, so that it is divided "
       "by -p: what is left is softmax - one-hot"},
  };
  return known;
}

// fp32 rounds m + ln l to 1e-3 where m is 10000: that is no mistake.
static void check_case(const Case& c, double tolerance_of_loss = 1e-5) {
  std::vector<exercise::Mistake> losses, gradients;
  for (const Known& one : all_known()) {
    const Result result = one.way.run(c);
    losses.push_back({one.name, {result.loss}, one.explanation});
    gradients.push_back({one.name, result.dx, one.explanation});
  }
  const Result got = Answer{}.run(c), expected = Way{}.run(c);
  exercise::check_output({"loss", 0, tolerance_of_loss}, {got.loss}, {expected.loss}, losses);
  exercise::check_output({"dx", c.vocabulary, 2e-6}, got.dx, expected.dx, gradients);
}

// The same where the loss has to be NaN, and the gradient of the row with the NaN.
static void check_nan(const Case& c, int row_of_nan) {
  const auto shown = [&](const auto& way) {
    const Result result = way.run(c);
    std::string text = std::string("loss ") + (std::isnan(result.loss) ? "NaN" : "a number");
    for (size_t i = 0; i < c.targets.size(); ++i) {
      size_t nans = 0;
      for (int j = 0; j < c.vocabulary; ++j) nans += std::isnan(result.dx[i * c.vocabulary + j]);
      text += ", dx[" + std::to_string(i) + "] " +
              (nans == 0                                   ? "numbers"
               : nans == static_cast<size_t>(c.vocabulary) ? "NaN"
                                                           : "partly NaN");
    }
    return text;
  };
  const auto looks = exercise::looks(all_known(), shown);
  const std::string got = shown(Answer{}), expected = shown(Way{});
  exercise::check_shown(got == expected,
                        "a logit of row " + std::to_string(row_of_nan) + " is NaN: expected " +
                            expected + "; got " + got,
                        got, looks);
}

static std::vector<float> random_logits(int count, int seed, float scale = 1, float shift = 0) {
  std::vector<float> all = exercise::random_numbers(count, seed, scale);
  for (float& one : all) one += shift;
  return all;
}

TEST_CASE("one row") { check_case({3, {std::log(2.0f), 0, 0}, {1}}); }
TEST_CASE("the README's two rows") {
  check_case({3, {std::log(2.0f), 0, 0, 0, 0, std::log(6.0f)}, {1, 0}});
}
TEST_CASE("a vocabulary of one: nothing to learn") { check_case({1, {3, -2}, {0, 0}}); }
TEST_CASE("all logits 0: the loss is ln 4") { check_case({4, std::vector<float>(12), {3, 0, 2}}); }
TEST_CASE("five rows of seven") { check_case({7, random_logits(35, 1, 2), {6, 0, 3, 3, 1}}); }
TEST_CASE("three rows of 65, as in the lesson") {
  check_case({65, random_logits(3 * 65, 2), {64, 12, 40}});
}
TEST_CASE("a target that is nearly certain") {
  check_case({4, {0, 16, 1, -2, 9, 0, -9, 0}, {1, 0}});
}
TEST_CASE("logits around 10000") {
  check_case({3, {10000, 9999, 9998, 10002, 10000, 10001}, {1, 2}}, 1e-3);
}
TEST_CASE("logits around -10000") {
  check_case({3, {-10000, -9999, -9998, -10002, -10000, -10001}, {1, 2}}, 1e-3);
}
TEST_CASE("a row at 10000 and a row at 0") {
  check_case({3, {10000, 9999, 9998, 1, 0, 2}, {1, 2}}, 1e-3);
  check_case({3, {1, 0, 2, 10000, 9999, 9998}, {1, 2}}, 1e-3);
}
TEST_CASE("a target that is nearly impossible") {
  check_case({3, {10000, 0, -10000, 1, 0, 2}, {1, 2}}, 1e-6);
  check_case({3, {1, 0, 2, 10000, 0, -10000}, {1, 2}}, 1e-6);
}
TEST_CASE("characters that may not come") {
  check_case({4, {1, -INF, 2, 0, -INF, -INF, 0.5f, -1}, {2, 3}});
}
TEST_CASE("a NaN comes out") {
  check_nan({3, {1, 0, 2, 1, NOT_A_NUMBER, 3}, {1, 2}}, 1);
  check_nan({3, {NOT_A_NUMBER, 0, 2, 1, 0, 3}, {1, 2}}, 0);
  check_nan({3, {1, 0, NOT_A_NUMBER, 1, 0, 3}, {2, 2}}, 0);
}

// What this test takes for right: the gradient is that of the loss.
TEST_CASE("the differences themselves") {
  Case c{5, random_logits(15, 3), {4, 0, 2}};
  const Result result = Way{}.run(c);
  constexpr float STEP = 0x1p-9f;
  for (size_t i = 0; i < c.logits.size(); ++i) {
    Case above = c, below = c;
    above.logits[i] += STEP;
    below.logits[i] -= STEP;
    const double difference = Way{}.run(above).loss - Way{}.run(below).loss;
    const double two_steps = double{above.logits[i]} - double{below.logits[i]};
    CHECK(result.dx[i] == doctest::Approx(difference / two_steps).epsilon(1e-4));
  }
}
