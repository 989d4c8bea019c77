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

// The right answer, and each mistake as a change to it.
struct Way {
  exercise::Changes is;

  void adamw_step(const AdamW& s, int64_t t, bool is_matrix, const Row& gradient, Row& weights,
                  Row& moments, Row& squares) const {
    double b1 = s.beta1, b2 = s.beta2;
    if (is("exchanged") || is("exchanged-in-means")) std::swap(b1, b2);
    if (is("only-first") || is("only-first-in-means")) b2 = b1;
    if (is("only-second") || is("only-second-in-means")) b1 = b2;
    if (is("turned") || is("turned-in-means")) b1 = 1 - b1, b2 = 1 - b2;
    const double steps = static_cast<double>(is("steps-counted-from-zero") ? t - 1
                                             : is("step-counted-twice")    ? t + 1
                                             : is("power-forgotten")       ? 1
                                                                           : t);
    double c1 = 1 - std::pow(s.beta1, steps), c2 = 1 - std::pow(s.beta2, steps);
    if (is("exchanged")) std::swap(c1, c2);
    if (is("turned")) c1 = 1 - std::pow(b1, steps), c2 = 1 - std::pow(b2, steps);
    if (is("only-first")) c2 = c1;
    if (is("only-second")) c1 = c2;
    if (is("multiplied-by-t")) c1 = 1 - s.beta1 * steps, c2 = 1 - s.beta2 * steps;
    if (is("corrections-exchanged")) std::swap(c1, c2);
    if (is("by-first")) c2 = c1;
    if (is("by-second")) c1 = c2;
    if (is("multiplied-by-the-correction")) c1 = 1 / c1, c2 = 1 / c2;
    if (is("bias-correction-forgotten") || is("moment-not-corrected")) c1 = 1;
    if (is("bias-correction-forgotten") || is("square-not-corrected")) c2 = 1;
    const bool decays =
        is("biases-decay") || is("coupled-all") || (is_matrix != (is("only-biases-decay")));
    const double pull = decays && !is("decay-forgotten") ? s.decay : 0;
    for (size_t i = 0; i + is("last-weight-forgotten") < weights.size(); ++i) {
      const double w = weights[i];
      double g = gradient[i];
      if ((is("nan-skipped") && std::isnan(g)) || (is("zero-gradients-skipped") && g == 0))
        continue;
      if (is("coupled") || is("coupled-all") || is("decay-twice")) g += pull * w;
      const double of_square = is("not-squared")      ? g
                               : is("absolute")       ? std::abs(g)
                               : is("moment-squared") ? 0
                                                      : g * g;
      double m = b1 * moments[i] + (is("sum-of-gradients") ? 1 : 1 - b1) * g;
      double v = b2 * squares[i] +
                 (is("sum-of-squares") ? 1 : 1 - b2) * (is("moment-squared") ? m * m : of_square);
      const double old_m = moments[i], old_v = squares[i];
      if (is("m-stored")) m /= c1;
      if (is("v-stored")) v /= c2;
      const double m_used = is("old-state") || is("old-moment") ? old_m
                            : is("gradient-for-moment")         ? g * c1
                                                                : m;
      const double v_used = is("old-state") || is("old-square") ? old_v : v;
      const double over1 = is("m-stored") ? 1 : c1, over2 = is("v-stored") ? 1 : c2;
      const double corrected = v_used / over2;
      double divisor = is("epsilon-under-the-root") ? std::sqrt(corrected + s.epsilon)
                       : is("epsilon-before-the-correction")
                           ? (std::sqrt(v_used) + s.epsilon) / std::sqrt(over2)
                       : is("correction-outside-the-root") ? std::sqrt(v_used) / over2 + s.epsilon
                       : is("epsilon-forgotten")           ? std::sqrt(corrected)
                       : is("root-forgotten")              ? corrected + s.epsilon
                       : is("epsilon-subtracted")          ? std::sqrt(corrected) - s.epsilon
                                                           : std::sqrt(corrected) + s.epsilon;
      double change = m_used / over1 / divisor;
      if (is("moment-alone")) change = m_used / over1;
      if (is("gradient-alone")) change = g;
      if (is("sign-of-the-gradient")) change = g > 0 ? 1 : g < 0 ? -1 : 0;
      if (is("coupled-late")) change = (m_used / over1 + pull * w) / divisor;
      const double rate = is("rate-forgotten") ? 1 : s.rate;
      const bool coupled = is("coupled") || is("coupled-all") || is("coupled-late");
      const double kept = coupled                        ? 1
                          : is("decay-without-the-rate") ? 1 - pull
                          : is("weights-grow")           ? 1 + s.rate * pull
                                                         : 1 - s.rate * pull;
      double next = w * kept - rate * change;
      if (is("decay-of-the-new-weight")) next = (w - rate * change) * kept;
      if (is("uphill-not-down")) next = w * kept + rate * change;
      weights[i] = static_cast<float>(next);
      if (!is("state-not-kept")) moments[i] = static_cast<float>(m);
      if (!is("state-not-kept") && !is("square-not-kept")) squares[i] = static_cast<float>(v);
    }
  }
};

// The learner's answer, to be called as a Way is.
struct Answer {
  void adamw_step(const AdamW& settings, int64_t t, bool is_matrix, const Row& gradient,
                  Row& weights, Row& moment, Row& square) const {
    ::adamw_step(settings, t, is_matrix, gradient, weights, moment, square);
  }
};

static const exercise::Table MISTAKES(R"(
bias-correction-forgotten
  m and v were used as they are. Both began as 0, and after few steps m is too small by 1 - beta1^t,
  v by 1 - beta2^t: divide by these
square-not-corrected
  m was corrected and v was not: it is too small by 1 - beta2^t, and the first steps are too long
moment-not-corrected
  v was corrected and m was not: it is too small by 1 - beta1^t, and the first steps are too short
steps-counted-from-zero
  the correction is that of t - 1. At the first step t is 1 already, and 1 - beta^0 is 0
step-counted-twice
  the correction is that of t + 1. At the first step t is 1, so nothing has to be added
power-forgotten
  the correction is 1 - beta at every step. That is right at the first one: 1 - beta^t
multiplied-by-t
  the correction is 1 - beta * t. It should have beta to the power of t
multiplied-by-the-correction
  m and v were multiplied by 1 - beta^t, and are smaller still. Divide by it
corrections-exchanged
  m was corrected by beta2 and v by beta1. Correct each by its own
correction-stored: m-stored v-stored; m-stored; v-stored
  the corrected means were stored in m and v, and are corrected again at the next step. They are for
  this step's weights alone
betas-exchanged: exchanged; exchanged-in-means
  beta2 was taken for m and beta1 for v. v is the slower one, so that steps do not jump
one-beta-for-both: only-first; only-first-in-means; only-second; only-second-in-means; by-first;
    by-second
  m and v were computed, or corrected, with the same beta. Use beta1 for m, and beta2 for v
betas-turned-round: turned; turned-in-means
  the old mean got 1 - beta and the gradient beta. A mean over many steps keeps beta of itself
sums-for-means: sum-of-gradients; sum-of-squares; sum-of-gradients sum-of-squares
  the gradient was added without the factor 1 - beta. m and v are means
gradient-not-squared: not-squared; absolute
  v is a mean of gradients. It must be a mean of their squares, because otherwise its root may not
  exist
moment-squared
  v is a mean of m squared. Where gradients change their sign m is near 0, and the step would be
  long: g squared
gradient-for-moment
  the weights follow the gradient of this step. They should follow m, the mean over many steps
updated-before-the-moments: old-state
  the weights were updated with m and v of the step before. Compute m and v first, then the weights
updated-before-the-moments: old-moment; old-square
  the weights were updated with the m, or the v, of the step before. Compute m and v first, then the
  weights
sign-of-the-gradient
  each weight moved by the rate. m / root of v is 1 only at the first step
epsilon-under-the-root
  epsilon was added to v and the root taken of both. The root of 1e-8 is 1e-4, which slows down
  weights with small gradients: root of v, plus epsilon
epsilon-before-the-correction
  epsilon was added to the root of v before the correction divided it. Then epsilon is larger at
  first: correct v, take the root, add
correction-outside-the-root
  the root of v was divided by 1 - beta2^t. Divide v itself, before its root is taken
epsilon-forgotten
  epsilon is missing. A weight that never had a gradient is 0/0 = NaN
epsilon-subtracted
  epsilon was subtracted. Add it, so that nothing is divided by 0
root-forgotten
  m was divided by v. Divide it by its root, because the step shall not depend on the size of the
  gradients
decay-coupled: coupled; coupled-all; coupled-late
  decay * w was added to the gradient, so it is in m and v and is divided by the root: that is Adam
  with an L2 penalty. AdamW takes rate * decay * w from the weight itself
decay-twice
  the weight decays, and decay * w was added to the gradient as well. The first is all of it
root-not-used: moment-alone; gradient-alone
  the weights moved by the rate times m, or times the gradient. They should move by m divided by the
  root of v, so that all weights move about as far
last-weight-forgotten
  the last weight did not change. The loop ends one too early
nan-skipped
  a weight whose gradient is NaN was left unchanged. A NaN must reach the weight, because otherwise
  the error stays hidden
zero-gradients-skipped
  a weight whose gradient is 0 was left unchanged. Its m and v decrease, it still moves by m, and it
  decays
biases-decay
  weight decay pulled at what is no matrix, too: biases and gains stay as they are
only-biases-decay
  weight decay pulled at biases and not at matrices. It is the other way round
decay-forgotten
  nothing decays. Matrices lose rate * decay of themselves at each step
decay-without-the-rate
  weights lose `decay` of themselves at each step. They should lose rate * decay
decay-of-the-new-weight
  the weight decayed after the step, and part of the step with it. But only the old weight decays
weights-grow
  rate * decay * w was added. Subtract it, so that weights shrink
uphill-not-down
  the weights go with the gradient, and the loss grows: subtract
rate-forgotten
  the weights moved by m / root of v. Multiply that by the rate
state-not-kept
  m and v are the same after the step. The next step needs the new ones
square-not-kept
  v is the same after the step. The next step needs the new one
)");

struct State {
  Row w, m, v;
};

struct Case {
  AdamW settings;
  bool is_matrix;
  State start;
  std::vector<Row> gradients;  // gradients of each step
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
  for (const exercise::Row& mistake : MISTAKES) runs.push_back(run(Way{mistake.changes}, c));
  for (size_t step = 0; step < right.size(); ++step) {
    const auto check_row = [&](const char* name, Row State::*row) {
      double largest = 0;
      for (const float one : right[step].*row) largest = std::max(largest, std::abs(double{one}));
      // Squares of 1e-8 have to be compared, too, with a unit of 1e-18, say.
      const int digits =
          largest > 0 && largest < 1e-3 ? static_cast<int>(std::floor(std::log10(largest))) : 0;
      const auto in_units = [&](const std::vector<State>& states) {
        Numbers all = exercise::numbers(states[step].*row);
        for (double& one : all) one *= std::pow(10.0, -digits);
        return all;
      };
      std::vector<exercise::Mistake> mistakes;
      for (const exercise::Row& mistake : MISTAKES)
        mistakes.push_back({mistake.name, in_units(runs[mistakes.size()]), mistake.explanation});
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

// None is near 0, because its square would be lost next to the others.
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
  CHECK(shown(Way{}) == "a number, NaN, a number");
  exercise::check_shown<Way, Answer>("w, one step after the gradient of weight 1 was NaN", MISTAKES,
                                     shown);
}

// The answer that this test expects: with equal gradients both corrected means equal the gradient.
TEST_CASE("the corrections themselves") {
  const Case c{{1, 0.9, 0.99, 0, 0}, true, start({0}), std::vector<Row>(7, Row{0.25f})};
  const std::vector<State> states = run(Way{}, c);
  for (size_t step = 0; step < states.size(); ++step)
    CHECK(states[step].w[0] == doctest::Approx(-1.0 - static_cast<double>(step)));
}
