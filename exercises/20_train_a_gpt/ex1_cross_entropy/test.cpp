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

// The right answer, and each mistake as a change to it.
struct Way {
  exercise::Changes is;

  Result run(const Case& c) const {
    Numbers x = exercise::numbers(c.logits);
    const int rows = static_cast<int>(c.targets.size()), columns = c.vocabulary;
    const double of_batch = *std::max_element(x.begin(), x.end());
    double total = 0, l = 0, so_far = -INF;
    for (int i = 0; i < rows; ++i) {
      const auto at = [&](int j) {
        return is("rows-and-columns-exchanged") ? j * rows + i : i * columns + j;
      };
      const int next = i == rows - 1 ? 0 : c.targets[i + 1];
      const int t = is("target-of-row-zero")       ? c.targets[0]
                    : is("target-of-the-next-row") ? next
                                                   : c.targets[i];
      double m = x[at(0)];
      for (int j = 0; j < columns; ++j) m = std::max(m, x[at(j)]);
      so_far = std::max(so_far, m);
      if (is("none")) m = 0;
      if (is("maximum-of-all-rows")) m = of_batch;
      if (is("maximum-of-row-zero")) m = *std::max_element(x.begin(), x.begin() + columns);
      if (is("maximum-starts-at-zero")) m = std::max(m, 0.0);
      if (is("maximum-of-the-rows-so-far")) m = so_far;
      const double x_target = is("read-in-row-zero") ? x[t] : x[at(t)];
      Numbers logits, weights;
      if (!is("sum-of-the-rows-so-far")) l = 0;
      double unsafe = 0;  // the sum without the maximum taken out
      for (int j = 0; j < columns; ++j) {
        logits.push_back(x[at(j)]);
        weights.push_back(is("powers-of-two") ? std::exp2(x[at(j)] - m) : std::exp(x[at(j)] - m));
        l += weights[j];
        unsafe += std::exp(x[at(j)]);
      }
      const double rounded_lse =
          static_cast<float>(static_cast<float>(m) + std::log(static_cast<float>(l)));
      if (is("not-normalised")) l = 1;
      const double p_target = weights[t] / l;
      const double over = is("gradient-not-divided")           ? 1
                          : is("gradient-over-the-vocabulary") ? columns
                          : is("gradient-over-all-logits")     ? rows * columns
                                                               : rows;
      for (int j = 0; j < columns && !is("gradient-not-written"); ++j) {
        const double p = is("exponentiated-twice") ? std::exp(weights[j] - m) / l
                         : is("softmax-from-a-rounded-logarithm")
                             ? std::exp(logits[j] - rounded_lse)
                         : is("not-in-gradient") ? weights[j]
                                                 : weights[j] / l;
        const double hot = is("one-hot-at-the-row-number") ? j == i : j == t;
        x[at(j)] = is("one-hot-forgotten") || is("in-row-zero") ? p / over
                   : is("one-hot-added")                        ? (p + hot) / over
                   : is("gradient-negated")                     ? (hot - p) / over
                   : is("softmax-not-divided")                  ? p - hot / over
                   : is("one-hot-not-divided")                  ? p / over - hot
                   : is("one-hot-before-the-division")          ? (p - hot / l) / over
                   : is("target-only")                          ? hot * (p - 1) / over
                   : is("target-set-to-zero")                   ? (p - hot * p_target) / over
                   : is("jacobian")                             ? p_target * (p - hot) / over
                   : is("jacobian-turned")                      ? p_target * (hot - p) / over
                                                                : (p - hot) / over;
        if (is("divided-as-whole-numbers") && rows > 1) x[at(j)] *= 0;
      }
      if (is("in-row-zero")) x[t] -= 1.0 / rows;
      const double lse = is("maximum-not-added-back") ? std::log(l)
                         : is("only-for-gradient")    ? std::log(unsafe)
                                                      : m + std::log(l);
      double loss = is("loss-is-the-margin")    ? m - x_target
                    : is("logarithm-of-zero")   ? -std::log(p_target < 1e-45 ? 0 : p_target)
                    : is("of-quotient")         ? -std::log(weights[t] / l)
                    : is("epsilon")             ? -std::log(p_target + is.number("epsilon", 0))
                    : is("logarithm-forgotten") ? -p_target
                    : is("target-forgotten")    ? lse
                    : is("loss-negated")        ? x_target - lse
                    : is("log-2")               ? (lse - x_target) / std::log(2)
                    : is("log-10")              ? (lse - x_target) / std::log(10)
                    : is("sum-in-log-2")        ? m + std::log2(l) - x_target
                    : is("sum-in-log-10")       ? m + std::log10(l) - x_target
                    : is("of-dx")               ? lse - x[at(t)]
                    : is("of-weight")           ? lse - weights[t]
                    : is("of-softmax")          ? lse - p_target
                                                : lse - x_target;
      if (is("zero-times-infinity")) {
        loss = 0;
        for (int j = 0; j < columns; ++j) loss += (j == t) * (lse - logits[j]);
      }
      total = is("last-row-only") ? loss : total + loss;
    }
    if (!is.any("sum", "over-vocabulary", "over-all")) total /= rows;
    if (is("over-vocabulary")) total /= columns;
    if (is("over-all")) total /= rows * columns;
    return {total, x};
  }
};

// The learner's answer, to be called as a Way is.
struct Answer {
  Result run(const Case& c) const {
    // An answer that reads past the end finds a 0 there and does not crash.
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

static const exercise::Table MISTAKES(R"(
maximum-not-subtracted: none; only-for-gradient; none of-quotient
  e^x of the logits themselves was computed. It is Inf above 88.7 and all of a row's are 0 below
  about -103: subtract the row's maximum first, for the loss and for the gradient
maximum-of-all-rows
  the maximum of all rows was subtracted. A row far below it is all 0 then, and ln 0 is -Inf: each
  row its own
maximum-of-the-rows-so-far
  the maximum was not reset for each row. A row far below the earlier rows is all 0 then
sum-of-the-rows-so-far
  the sum l was not reset for each row, and includes the sum of the previous row
maximum-of-row-zero
  the maximum was looked for in row 0 for every row, where the gradient has been written by then.
  Each row has a separate maximum
maximum-starts-at-zero
  the maximum began at 0, so in a row of negative logits nothing was taken out, and all e^x may be
  0: begin with a number of the row
maximum-not-added-back
  the loss is ln l - x[target] with the maximum taken out of l alone. It has to be taken out of
  both, or added to ln l
loss-is-the-margin
  the loss is m - x[target], 0 whenever the target is the most probable. ln l is missing
logarithm-of-zero
  the loss went by way of the probability, which is 0 in fp32 for an improbable target, and -ln 0
  is Inf: m + ln l - x[target] never takes the logarithm of something below 1
epsilon-in-the-logarithm: epsilon={1e-12,1e-10,1e-9,1e-8,1e-7,1e-6}
  a small number was added to the probability so that its logarithm is not -Inf. The loss of an
  improbable target is then that number's, and the gradient another loss's: m + ln l - x[target]
zero-times-infinity
  the loss was summed over the whole row with weights 0 and 1. A logit of -Inf makes it 0 * Inf =
  NaN: read the target alone
logarithm-forgotten
  the loss is -p of the target. The gradient p - 1 belongs to -ln p
target-forgotten
  the loss is ln of the sum alone. x[target] has to be subtracted, otherwise it does not matter what
  came next
loss-negated
  the loss is ln p, which is never above 0. -ln p, so that less is better
logarithm-to-base-two: log-2
  the loss is in bits. The gradient p - 1 belongs to the natural logarithm
logarithm-to-base-ten: log-10
  a logarithm to base 10 was taken. The gradient p - 1 belongs to the natural one
logarithm-to-base-two: sum-in-log-2
  a logarithm to base 2 was taken of the sum, which is one of powers of e: ln l
logarithm-to-base-ten: sum-in-log-10
  a logarithm to base 10 was taken of the sum, which is one of powers of e: ln l
powers-of-two
  powers of 2 were computed. softmax has powers of e
target-read-too-late: of-dx; of-weight; of-softmax
  x[target] was read after something else had been written in its place. Keep it before the row is
  overwritten
sum-for-mean: sum
  the losses of all rows were added. The mean: divide by the number of rows, as the gradient is
sum-for-mean: sum gradient-not-divided
  loss and gradient are those of the sum over the rows. For the mean, divide both by the number of
  rows
last-row-only
  the loss is the last row's divided by the number of rows. The rows' losses have to be added
mean-over-the-vocabulary: over-vocabulary
  the loss was divided by the vocabulary. There is one loss per row: divide by the number of rows
mean-over-the-vocabulary: over-vocabulary gradient-over-the-vocabulary
  loss and gradient were divided by the vocabulary. There is one loss per row: divide by the number
  of rows
mean-over-all-logits: over-all
  the loss was divided by the number of logits. There is one loss per row: divide by the number of
  rows
mean-over-all-logits: over-all gradient-over-all-logits
  loss and gradient were divided by the number of logits. There is one loss per row: divide by the
  number of rows
target-of-row-zero
  all rows were given the target of row 0. The target of a row is targets[row]
target-of-the-next-row
  each row was given the next row's target. The targets are shifted already: targets[row] is the
  character after that row
target-in-row-zero: read-in-row-zero; in-row-zero; read-in-row-zero in-row-zero
  the target was looked for in row 0. That of row i is at i * vocabulary + target
rows-and-columns-exchanged
  the logits were read as [vocabulary, rows]. Column j of row i is at i * vocabulary + j
one-hot-forgotten
  the gradient is softmax alone, so that every logit sinks. The target's has to rise: subtract 1
  there
one-hot-added
  1 was added at the target. That makes it less probable: subtract it
gradient-negated
  the gradient has the other sign. It should be softmax - one-hot, and the step goes against it
one-hot-at-the-row-number
  1 was subtracted in column i of row i. The column is the target's: targets[i]
softmax-not-divided
  only the 1 at the target was divided by the number of rows. Divide softmax, too: (softmax -
  one-hot) / rows
one-hot-not-divided
  softmax was divided by the number of rows, the 1 at the target was not: (softmax - one-hot) /
  rows
one-hot-before-the-division
  the 1 at the target was subtracted from e^(x - m), before the division by l. Subtract it from
  softmax: e^(x - m) / l - 1
target-only
  only the target's logit got a gradient. The others make it improbable: softmax there
target-set-to-zero
  the gradient at the target is 0. It should be softmax - 1
gradient-not-divided
  the gradient is that of the sum. The loss is a mean: divide by the number of rows
gradient-over-the-vocabulary
  the gradient was divided by the vocabulary. By the number of rows, as the loss is
gradient-over-all-logits
  the gradient was divided by the number of logits. By the number of rows, as the loss is
exponentiated-twice
  e^(x - m) was computed of numbers that were e^(x - m) already: where they are stored, the logits
  are gone
softmax-from-a-rounded-logarithm
  softmax was computed as e^(x - (m + ln l)). Around 10000 fp32 rounds m + ln l to 0.001, and the
  probabilities are off by as much: e^(x - m) / l
gradient-not-written
  the logits are still there. The gradient takes their place
divided-as-whole-numbers
  the gradient is 0 as soon as there are two rows: 1 / rows of whole numbers is 0
not-normalised
  e^(x - m) was taken for softmax. It has to be divided by the row's sum l, and ln l belongs to the
  loss
not-normalised: not-in-gradient
  the gradient has e^(x - m) where softmax should be. It has to be divided by the row's sum l
derivative-of-the-probability: jacobian
  the gradient is that of the target's probability, with the other sign. The loss is -ln p, so that
  this gradient is divided by p, and softmax - one-hot remains
derivative-of-the-probability: jacobian-turned
  the gradient is that of the target's probability. The loss is -ln p, so that this gradient is
  divided by -p, and softmax - one-hot remains
)");

// fp32 rounds m + ln l to 1e-3 where m is 10000, which is no mistake.
static void check_case(const Case& c, double tolerance_of_loss = 1e-5) {
  std::vector<exercise::Mistake> losses, gradients;
  for (const exercise::Row& mistake : MISTAKES) {
    const Result result = Way{mistake.changes}.run(c);
    losses.push_back({mistake.name, {result.loss}, mistake.explanation});
    gradients.push_back({mistake.name, result.dx, mistake.explanation});
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
  exercise::check_shown<Way, Answer>("a logit of row " + std::to_string(row_of_nan) + " is NaN",
                                     MISTAKES, shown);
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

// The answer that this test expects: the gradient is that of the loss.
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
