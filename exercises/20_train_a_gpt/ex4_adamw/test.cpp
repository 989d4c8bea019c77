#include <doctest/doctest.h>

#include <adamw.hpp>
#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "exercises/support/verdict.hpp"

using exercise::Numbers;
using Row = std::vector<float>;

// The function as people write it: right as it stands here, each mistake is a change to it.
struct Way {
  enum Correction {
    kBoth,
    kNeither,
    kOnlyMoment,
    kOnlySquare,
    kFromZero,
    kOneMore,
    kNoPower,
    kLinear,
    kMultiplied,
    kBetasExchanged,
    kByFirst,
    kBySecond,
    kStored
  } correction = kBoth;
  enum Betas {
    kRight,
    kExchanged,
    kExchangedInMeans,
    kTurned,
    kTurnedInMeans,
    kOnlyFirst,
    kOnlyFirstInMeans,
    kOnlySecond,
    kOnlySecondInMeans
  } betas = kRight;
  enum Square { kOfGradient, kNotSquared, kOfMoment, kAbsolute } square = kOfGradient;
  enum Step {
    kMoment,
    kGradient,
    kOldState,
    kOldMoment,
    kOldSquare,
    kSign,
    kMomentAlone,
    kGradientAlone
  } step = kMoment;
  enum Root {
    kRoot,
    kInside,
    kBeforeCorrection,
    kCorrectedOutside,
    kNoEpsilon,
    kNoRoot,
    kSubtracted
  } root = kRoot;
  enum Decay {
    kOfMatrices,
    kCoupled,
    kCoupledAll,
    kOfAll,
    kOfOthers,
    kNone,
    kWithoutRate,
    kAfter,
    kGrows,
    kCoupledLate,
    kTwice
  } decay = kOfMatrices;
  enum Update { kDown, kUp, kWithoutRate2, kNotKept, kSquareNotKept } update = kDown;
  bool sum_of_gradients = false, sum_of_squares = false;
  bool last_forgotten = false, nan_skipped = false, zero_skipped = false;

  void adamw_step(const AdamW& s, int64_t t, bool is_matrix, const Row& gradient, Row& weights,
                  Row& moments, Row& squares) const {
    double b1 = s.beta1, b2 = s.beta2;
    if (betas == kExchanged || betas == kExchangedInMeans) std::swap(b1, b2);
    if (betas == kOnlyFirst || betas == kOnlyFirstInMeans) b2 = b1;
    if (betas == kOnlySecond || betas == kOnlySecondInMeans) b1 = b2;
    if (betas == kTurned || betas == kTurnedInMeans) b1 = 1 - b1, b2 = 1 - b2;
    const double steps = static_cast<double>(correction == kFromZero  ? t - 1
                                             : correction == kOneMore ? t + 1
                                             : correction == kNoPower ? 1
                                                                      : t);
    double c1 = 1 - std::pow(s.beta1, steps), c2 = 1 - std::pow(s.beta2, steps);
    if (betas == kExchanged) std::swap(c1, c2);
    if (betas == kTurned) c1 = 1 - std::pow(b1, steps), c2 = 1 - std::pow(b2, steps);
    if (betas == kOnlyFirst) c2 = c1;
    if (betas == kOnlySecond) c1 = c2;
    if (correction == kLinear) c1 = 1 - s.beta1 * steps, c2 = 1 - s.beta2 * steps;
    if (correction == kBetasExchanged) std::swap(c1, c2);
    if (correction == kByFirst) c2 = c1;
    if (correction == kBySecond) c1 = c2;
    if (correction == kMultiplied) c1 = 1 / c1, c2 = 1 / c2;
    if (correction == kNeither || correction == kOnlySquare) c1 = 1;
    if (correction == kNeither || correction == kOnlyMoment) c2 = 1;
    const bool decays =
        decay == kOfAll || decay == kCoupledAll || (is_matrix != (decay == kOfOthers));
    const double pull = decays && decay != kNone ? s.decay : 0;
    for (size_t i = 0; i + last_forgotten < weights.size(); ++i) {
      const double w = weights[i];
      double g = gradient[i];
      if ((nan_skipped && std::isnan(g)) || (zero_skipped && g == 0)) continue;
      if (decay == kCoupled || decay == kCoupledAll || decay == kTwice) g += pull * w;
      const double of_square = square == kNotSquared ? g
                               : square == kAbsolute ? std::abs(g)
                               : square == kOfMoment ? 0
                                                     : g * g;
      double m = b1 * moments[i] + (sum_of_gradients ? 1 : 1 - b1) * g;
      double v = b2 * squares[i] +
                 (sum_of_squares ? 1 : 1 - b2) * (square == kOfMoment ? m * m : of_square);
      const double old_m = moments[i], old_v = squares[i];
      if (correction == kStored) m /= c1, v /= c2;
      const double m_used = step == kOldState || step == kOldMoment ? old_m
                            : step == kGradient                     ? g * c1
                                                                    : m;
      const double v_used = step == kOldState || step == kOldSquare ? old_v : v;
      const double over1 = correction == kStored ? 1 : c1, over2 = correction == kStored ? 1 : c2;
      const double corrected = v_used / over2;
      double divisor = root == kInside ? std::sqrt(corrected + s.epsilon)
                       : root == kBeforeCorrection
                           ? (std::sqrt(v_used) + s.epsilon) / std::sqrt(over2)
                       : root == kCorrectedOutside ? std::sqrt(v_used) / over2 + s.epsilon
                       : root == kNoEpsilon        ? std::sqrt(corrected)
                       : root == kNoRoot           ? corrected + s.epsilon
                       : root == kSubtracted       ? std::sqrt(corrected) - s.epsilon
                                                   : std::sqrt(corrected) + s.epsilon;
      double change = m_used / over1 / divisor;
      if (step == kMomentAlone) change = m_used / over1;
      if (step == kGradientAlone) change = g;
      if (step == kSign) change = g > 0 ? 1 : g < 0 ? -1 : 0;
      if (decay == kCoupledLate) change = (m_used / over1 + pull * w) / divisor;
      const double rate = update == kWithoutRate2 ? 1 : s.rate;
      const bool coupled = decay == kCoupled || decay == kCoupledAll || decay == kCoupledLate;
      const double kept = coupled                 ? 1
                          : decay == kWithoutRate ? 1 - pull
                          : decay == kGrows       ? 1 + s.rate * pull
                                                  : 1 - s.rate * pull;
      double next = w * kept - rate * change;
      if (decay == kAfter) next = (w - rate * change) * kept;
      if (update == kUp) next = w * kept + rate * change;
      weights[i] = static_cast<float>(next);
      if (update != kNotKept) moments[i] = static_cast<float>(m);
      if (update != kNotKept && update != kSquareNotKept) squares[i] = static_cast<float>(v);
    }
  }
};

// What the learner wrote, to be called as a Way is.
struct Answer {
  void adamw_step(const AdamW& settings, int64_t t, bool is_matrix, const Row& gradient,
                  Row& weights, Row& moment, Row& square) const {
    ::adamw_step(settings, t, is_matrix, gradient, weights, moment, square);
  }
};

using Wrong = exercise::Wrong<Way>;

static const std::vector<Wrong>& wrong_ways() {
  using W = Way;
  static const std::vector<Wrong> wrong = {
      {"bias-correction-forgotten",
       "m and v were used as they are; both began as 0, and after few steps m is too small by 1 - "
       "beta1^t, v by 1 - beta2^t: divide by these",
       {{.correction = W::kNeither}}},
      {"square-not-corrected",
       "m was corrected and v was not: it is too small by 1 - beta2^t, and the first steps are too "
       "long",
       {{.correction = W::kOnlyMoment}}},
      {"moment-not-corrected",
       "v was corrected and m was not: it is too small by 1 - beta1^t, and the first steps are too "
       "short",
       {{.correction = W::kOnlySquare}}},
      {"steps-counted-from-zero",
       "the correction is that of t - 1; at the first step t is 1 already, and 1 - beta^0 is 0",
       {{.correction = W::kFromZero}}},
      {"step-counted-twice",
       "the correction is that of t + 1; at the first step t is 1, so nothing has to be added",
       {{.correction = W::kOneMore}}},
      {"power-forgotten",
       "the correction is 1 - beta at every step; that is right at the first one: 1 - beta^t",
       {{.correction = W::kNoPower}}},
      {"multiplied-by-t",
       "the correction is 1 - beta * t; beta to the power of t",
       {{.correction = W::kLinear}}},
      {"multiplied-by-the-correction",
       "m and v were multiplied by 1 - beta^t, and are smaller still; divided",
       {{.correction = W::kMultiplied}}},
      {"corrections-exchanged",
       "m was corrected by beta2 and v by beta1; each by its own",
       {{.correction = W::kBetasExchanged}}},
      {"correction-stored",
       "the corrected means were stored in m and v, and are corrected again at the next step; they "
       "are for this step's weights alone",
       {{.correction = W::kStored}}},
      {"betas-exchanged",
       "beta2 was taken for m and beta1 for v; v is the slower one, so that steps do not jump",
       {{.betas = W::kExchanged}, {.betas = W::kExchangedInMeans}}},
      {"one-beta-for-both",
       "m and v were computed, or corrected, with the same beta; m with beta1, v with beta2",
       {{.betas = W::kOnlyFirst},
        {.betas = W::kOnlyFirstInMeans},
        {.betas = W::kOnlySecond},
        {.betas = W::kOnlySecondInMeans},
        {.correction = W::kByFirst},
        {.correction = W::kBySecond}}},
      {"betas-turned-round",
       "the old mean got 1 - beta and the gradient beta; a mean over many steps keeps beta of "
       "itself",
       {{.betas = W::kTurned}, {.betas = W::kTurnedInMeans}}},
      {"sums-for-means",
       "the gradient was added without the factor 1 - beta; m and v are means",
       {{.sum_of_gradients = true},
        {.sum_of_squares = true},
        {.sum_of_gradients = true, .sum_of_squares = true}}},
      {"gradient-not-squared",
       "v is a mean of gradients; of their squares, otherwise its root may not exist",
       {{.square = W::kNotSquared}, {.square = W::kAbsolute}}},
      {"moment-squared",
       "v is a mean of m squared; where gradients change their sign m is near 0, and the step "
       "would be long: g squared",
       {{.square = W::kOfMoment}}},
      {"gradient-for-moment",
       "the weights follow the gradient of this step; m, the mean over many steps",
       {{.step = W::kGradient}}},
      {"updated-before-the-moments",
       "the weights were updated with m and v of the step before; first m and v, then the weights",
       {{.step = W::kOldState}}},
      {"updated-before-the-moments",
       "the weights were updated with the m, or the v, of the step before; first m and v, then the "
       "weights",
       {{.step = W::kOldMoment}, {.step = W::kOldSquare}}},
      {"sign-of-the-gradient",
       "each weight moved by the rate; m / root of v is 1 only at the first step",
       {{.step = W::kSign}}},
      {"epsilon-under-the-root",
       "epsilon was added to v and the root taken of both; the root of 1e-8 is 1e-4, which slows "
       "down weights with small gradients: root of v, plus epsilon",
       {{.root = W::kInside}}},
      {"epsilon-before-the-correction",
       "epsilon was added to the root of v before the correction divided it; then epsilon is "
       "larger at first: correct v, take the root, add",
       {{.root = W::kBeforeCorrection}}},
      {"correction-outside-the-root",
       "the root of v was divided by 1 - beta2^t; v itself, before its root is taken",
       {{.root = W::kCorrectedOutside}}},
      {"epsilon-forgotten",
       "epsilon is missing; a weight that never had a gradient is 0/0 = NaN",
       {{.root = W::kNoEpsilon}}},
      {"epsilon-subtracted",
       "epsilon was subtracted; added, so that nothing is divided by 0",
       {{.root = W::kSubtracted}}},
      {"root-forgotten",
       "m was divided by v; by its root: the step shall not depend on the size of the gradients",
       {{.root = W::kNoRoot}}},
      {"decay-coupled",
       "decay * w was added to the gradient, so it is in m and v and is divided by the root: that "
       "is Adam with an L2 penalty; AdamW takes rate * decay * w from the weight itself",
       {{.decay = W::kCoupled}, {.decay = W::kCoupledAll}, {.decay = W::kCoupledLate}}},
      {"decay-twice",
       "the weight decays, and decay * w was added to the gradient as well; the first is all of it",
       {{.decay = W::kTwice}}},
      {"root-not-used",
       "the weights moved by the rate times m, or times the gradient; m divided by the root of v, "
       "so that all weights move about as far",
       {{.step = W::kMomentAlone}, {.step = W::kGradientAlone}}},
      {"last-weight-forgotten",
       "the last weight did not change; the loop ends one too early",
       {{.last_forgotten = true}}},
      {"nan-skipped",
       "a weight whose gradient is NaN was left as it is; a NaN has to come out, or nobody sees "
       "that something is wrong",
       {{.nan_skipped = true}}},
      {"zero-gradients-skipped",
       "a weight whose gradient is 0 was left as it is; its m and v fade, it goes on by m, and it "
       "decays",
       {{.zero_skipped = true}}},
      {"biases-decay",
       "weight decay pulled at what is no matrix, too: biases and gains stay as they are",
       {{.decay = W::kOfAll}}},
      {"only-biases-decay",
       "weight decay pulled at biases and not at matrices; the other way round",
       {{.decay = W::kOfOthers}}},
      {"decay-forgotten",
       "nothing decays; matrices lose rate * decay of themselves at each step",
       {{.decay = W::kNone}}},
      {"decay-without-the-rate",
       "weights lose `decay` of themselves at each step; rate * decay",
       {{.decay = W::kWithoutRate}}},
      {"decay-of-the-new-weight",
       "the weight decayed after the step, and part of the step with it; the old weight decays",
       {{.decay = W::kAfter}}},
      {"weights-grow",
       "rate * decay * w was added; subtracted, so that weights shrink",
       {{.decay = W::kGrows}}},
      {"uphill-not-down",
       "the weights go with the gradient, and the loss grows: subtract",
       {{.update = W::kUp}}},
      {"rate-forgotten",
       "the weights moved by m / root of v; that times the rate",
       {{.update = W::kWithoutRate2}}},
      {"state-not-kept",
       "m and v are the same after the step; the next step needs the new ones",
       {{.update = W::kNotKept}}},
      {"square-not-kept",
       "v is the same after the step; the next step needs the new one",
       {{.update = W::kSquareNotKept}}},
  };
  return wrong;
}

struct State {
  Row w, m, v;
};

struct Case {
  AdamW settings;
  bool is_matrix;
  State start;
  std::vector<Row> gradients;  // of each step
  int64_t first_step = 1;
};

template <class Any>
static std::vector<State> run(const Any& way, const Case& c) {
  std::vector<State> states;
  State state = c.start;
  for (size_t step = 0; step < c.gradients.size(); ++step) {
    way.adamw_step(c.settings, c.first_step + static_cast<int64_t>(step), c.is_matrix,
                   c.gradients[step], state.w, state.m, state.v);
    states.push_back(state);
  }
  return states;
}

static void check_case(const Case& c) {
  const std::vector<State> got = run(Answer{}, c), right = run(Way{}, c);
  std::vector<std::vector<State>> runs;
  std::vector<const Wrong*> of;
  for (const Wrong& wrong : wrong_ways())
    for (const Way& way : wrong.ways) {
      runs.push_back(run(way, c));
      of.push_back(&wrong);
    }
  for (size_t step = 0; step < right.size(); ++step) {
    const auto check_row = [&](const char* name, Row State::*row) {
      double largest = 0;
      for (const float one : right[step].*row) largest = std::max(largest, std::abs(double{one}));
      // Squares of 1e-8 have to be compared, too: a unit of 1e-18, say.
      const int digits =
          largest > 0 && largest < 1e-3 ? static_cast<int>(std::floor(std::log10(largest))) : 0;
      const auto in_units = [&](const std::vector<State>& states) {
        Numbers all = exercise::numbers(states[step].*row);
        for (double& one : all) one *= std::pow(10.0, -digits);
        return all;
      };
      std::vector<exercise::Mistake> mistakes;
      for (size_t i = 0; i < runs.size(); ++i)
        mistakes.push_back({of[i]->name, in_units(runs[i]), of[i]->explanation});
      const std::string unit = digits ? "1e" + std::to_string(-digits) + " " : "";
      exercise::check_output(
          {"t " + std::to_string(c.first_step + static_cast<int64_t>(step)) + ": " + unit + name, 0,
           5e-6},
          in_units(got), in_units(right), mistakes);
    };
    check_row("m", &State::m);
    check_row("v", &State::v);
    check_row("w", &State::w);
  }
}

static State start(const Row& weights) {
  return {weights, Row(weights.size()), Row(weights.size())};
}

// None is near 0: its square would be lost beside the others.
static std::vector<Row> random_gradients(size_t steps, int count, int seed) {
  std::vector<Row> all;
  for (size_t step = 0; step < steps; ++step) {
    all.push_back(exercise::random_numbers(count, seed + static_cast<int>(step)));
    for (float& one : all.back()) one += one < 0 ? -0.5f : 0.5f;
  }
  return all;
}

constexpr AdamW PLAIN = {0.1, 0.9, 0.99, 1e-8, 0}, DECAYING = {0.1, 0.9, 0.99, 1e-8, 0.5};

TEST_CASE("the README's three steps") {
  check_case({PLAIN, true, start({1}), {{0.5f}, {0.5f}, {-1}}});
}
TEST_CASE("the first step goes as far as the rate") {
  check_case({PLAIN, true, start({1, 1, 1, 1}), {{3, -0.01f, 100, 0.5f}}});
}
TEST_CASE("weight decay of a matrix") {
  check_case({DECAYING, true, start({1, -2, 3}), random_gradients(3, 3, 1)});
}
TEST_CASE("no weight decay of a bias") {
  check_case({DECAYING, false, start({1, -2, 3}), random_gradients(3, 3, 4)});
}
TEST_CASE("a gradient of 0") { check_case({DECAYING, true, start({1, 2}), {{0, 1}, {0, 0}}}); }
TEST_CASE("a gradient as small as epsilon") {
  check_case({PLAIN, false, start({0.5f, 0.5f}), {{1e-8f, -2e-8f}, {1e-8f, 1e-8f}}});
}
TEST_CASE("a gradient of 1e6") {
  check_case({PLAIN, false, start({0.5f, 0.5f}), {{1e6f, -2e6f}, {-1e6f, 1e6f}}});
}
TEST_CASE("ten steps") {
  check_case(
      {{0.05, 0.8, 0.95, 1e-6, 0.4}, true, start({1, -2, 3, 0.1f}), random_gradients(10, 4, 7)});
}
TEST_CASE("after 2000 steps") {
  check_case({DECAYING, true, {{1, -2}, {0.3f, -0.01f}, {0.5f, 0.04f}}, {{-1, 0.2f}}, 2001});
}
TEST_CASE("a NaN comes out, and stays where it is") {
  const Case c{
      PLAIN, true, start({1, 2, 3}), {{1, std::numeric_limits<float>::quiet_NaN(), 1}, {1, 1, 1}}};
  const auto shown = [&](const auto& way) {
    const State state = run(way, c).back();
    std::string text;
    for (size_t i = 0; i < state.w.size(); ++i)
      text += std::string(i ? ", " : "") + (std::isnan(state.w[i]) ? "NaN" : "a number");
    return text;
  };
  const auto looks = exercise::looks(wrong_ways(), shown);
  const std::string got = shown(Answer{});
  exercise::check_shown(got == "a number, NaN, a number",
                        "the gradient of weight 1 was NaN a step ago: expected w to be a number, "
                        "NaN, a number; got " +
                            got,
                        got, looks);
}

// What this test takes for right: of equal gradients both corrected means are those gradients.
TEST_CASE("the corrections themselves") {
  const Case c{{1, 0.9, 0.99, 0, 0}, true, start({0}), std::vector<Row>(7, Row{0.25f})};
  const std::vector<State> states = run(Way{}, c);
  for (size_t step = 0; step < states.size(); ++step)
    CHECK(states[step].w[0] == doctest::Approx(-1.0 - static_cast<double>(step)));
}
