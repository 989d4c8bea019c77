#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <gradient_check.hpp>
#include <limits>
#include <string>
#include <vector>

#include "common/check.hpp"
#include "exercises/support/verdict.hpp"

using exercise::Numbers;

constexpr double INF = std::numeric_limits<double>::infinity();
constexpr double NOT_A_NUMBER = std::numeric_limits<double>::quiet_NaN();

// The right answer, and each mistake as a change to it.
struct Way {
  exercise::Changes is;
  double step = is.number("step", 1e-5), relative = is.number("relative", 1e-4),
         absolute = is.number("absolute", 1e-9);

  bool within(double dx, double slope) const {
    if (is("compared-for-equality")) return dx == slope;
    const double size = std::abs(slope), sum = std::abs(dx) + size;
    double off = is("too-large-only")   ? dx - slope
                 : is("too-small-only") ? slope - dx
                 : is("sizes-compared") ? std::abs(std::abs(dx) - size)
                                        : std::abs(dx - slope);
    double allowed = absolute + relative * (is("absolute-only") ? 0
                                            : is("of-larger")   ? std::max(std::abs(dx), size)
                                            : is("of-dx")       ? std::abs(dx)
                                                                : size);
    const double divisor = is("over-difference") ? size
                           : is("over-dx")       ? std::abs(dx)
                           : is("over-sum")      ? sum
                           : is("over-floor")    ? std::max(sum, 1e-8)
                                                 : -1;
    if (divisor >= 0) allowed = relative, off /= divisor;
    return is("compared-with-above") ? !(off > allowed) : off <= allowed;
  }

  bool gradient_is_right(const Function& f, Numbers& x, const Numbers& dx) const {
    Numbers slopes;
    bool first = true, last = true, all = true, one = false;
    const bool backward = is("backward"),
               one_sided = backward || is.any("forward", "forward-halved");
    for (size_t i = 0; i + is("last-component-forgotten") < x.size(); ++i) {
      const double kept = x[i];
      const auto ask = [&] {
        const double result = f(x);
        return is("computed-in-fp32") ? static_cast<double>(static_cast<float>(result)) : result;
      };
      const double here = one_sided ? ask() : 0;
      double above = here, below = here;
      if (!backward) {
        x[i] = is("x-not-changed") ? kept : kept + step;
        above = ask();
      }
      if (!one_sided || backward) {
        x[i] = is("by-adding") ? x[i] - 2 * step : is("x-not-changed") ? kept : kept - step;
        below = ask();
      }
      const double rise = above - below;
      slopes.push_back(is.any("forward", "backward", "not-halved") ? rise / step
                       : is("not-divided")                         ? rise
                       : is("times-step")                          ? rise / 2 * step
                       : is("difference-turned-round")             ? (below - above) / (2 * step)
                                                                   : rise / (2 * step));
      last = within(dx[i], slopes[i]);
      if (i == 0) first = last;
      if (is.any("not-put-back-if-wrong", "left-early") && !last) return false;
      if (is("by-adding")) x[i] += step;
      if (!is.any("by-adding", "stays", "left-early")) x[i] = kept;
      if (is("early") && !last) return false;
      all = all && last;
      one = one || last;
    }
    return is("verdict-inverted") != verdict(dx, slopes, first, last, one, all);
  }

  bool verdict(const Numbers& dx, const Numbers& slopes, bool first, bool last, bool one,
               bool all) const {
    double sum_dx = 0, sum = 0, of_dx = 0, of_slopes = 0, of_errors = 0, dot = 0, size = 0, off = 0;
    double largest_error = 0, largest = 0;
    double worst = 0;  // error, divided by its bound
    for (size_t i = 0; i < slopes.size(); ++i) {
      const double e = std::abs(dx[i] - slopes[i]);
      sum_dx += dx[i];
      sum += slopes[i];
      of_dx += dx[i] * dx[i];
      of_slopes += slopes[i] * slopes[i];
      of_errors += e * e;
      dot += dx[i] * slopes[i];
      size += std::abs(slopes[i]);
      off += e;
      largest_error = fa::max_keeping_nan(largest_error, e);
      largest = std::max(largest, std::abs(slopes[i]));
      worst = std::max(e / (absolute + relative * std::abs(slopes[i])), worst);
    }
    const auto bound = [&](double of) { return absolute + relative * of; };
    return is("worst-of-all")           ? worst <= 1
           : is("first-component-only") ? first
           : is("last-component-only")  ? last
           : is("one-right-is-enough")  ? one
           : is("sums-compared")        ? within(sum_dx, sum)
           : is("norms-compared")       ? within(std::sqrt(of_dx), std::sqrt(of_slopes))
           : is("norm-of-errors")       ? std::sqrt(of_errors) <= bound(std::sqrt(of_slopes))
           : is("largest")              ? largest_error <= bound(largest)
           : is("mean")                 ? off <= bound(size)
           : is("directions-compared")  ? dot >= (1 - relative) * std::sqrt(of_dx * of_slopes)
                                        : all;
  }
};

// The learner's function, to be called as a Way is.
struct Answer {
  bool gradient_is_right(const Function& f, Numbers& x, const Numbers& dx) const {
    return ::gradient_is_right(f, x, dx);
  }
};

// Each mistake with several steps and bounds, because people choose different ones.

static const exercise::Table MISTAKES(R"(
$steps = step={1e-4,1e-5,1e-6}
$bounds = step={1e-4,1e-5,1e-6} {relative=1e-3 absolute=1e-8,,relative=1e-5 absolute=1e-8}
$any = relative={1e-3,1e-4,1e-5,1e-6} absolute={1e-8,1e-9}
one-sided-difference: {forward,backward,forward-halved} step={1e-4,1e-5,1e-6,1e-7,1e-8} $any
  f was evaluated on one side of x only. Such a difference is wrong by h f'' / 2, which is all that
  is left where f' is 0. Evaluate f above x and below it
not-halved: not-halved $bounds
  f(x + h) - f(x - h) was divided by h. The two points are 2 h apart
not-divided-by-two-steps: {not-divided,times-step} $bounds
  f(x + h) - f(x - h) was not divided by 2 h. a / 2 * h is (a / 2) * h: write a / (2 * h)
difference-turned-round: difference-turned-round $bounds
  f(x - h) - f(x + h) was computed, so that every slope has the wrong sign. Subtract the value below
  from the value above
x-not-changed: x-not-changed $bounds
  f was only evaluated at x itself. Perhaps a copy of the number was changed
computed-in-fp32: computed-in-fp32 $bounds
  f was stored in a float, whose 7 digits are too few for a difference over 2 h. Use double
step-too-small: step={1e-8,1e-9,1e-10,1e-11,1e-12,1e-13,1e-14,1e-15,1e-16} $any;
    step=1e-7 relative={1e-3,1e-4,1e-5,1e-6}
  h is so small that f(x + h) and f(x - h) differ in their last digits only. The rounding error
  1e-16 |f| / h is far above the bound
step-too-large: step={1e-3,1e-2,1e-1,1} $any
  h is so large that f is not a straight line over 2 h. The error h h f''' / 6 is far above the
  bound
not-put-back: {stays,left-early} $bounds
  x has changed: a number was not put back, so that all later differences are of another x
put-back-by-adding: by-adding {,early} $bounds
  a number was put back by adding h. x + h - 2 h + h does not always have the bits of x. Keep a copy
not-put-back-if-wrong: not-put-back-if-wrong $bounds
  the function returned before it put the number back. Put the number back first, then compare
absolute-part-too-large: {,absolute-only} $steps absolute={1e-2,1e-3,1e-4,1e-5,1e-6,1e-7}
  the bound allows more than 1 % of a small gradient, so that a wrong one of 3e-6 passes. The part
  that does not grow with the gradient must be far smaller than the gradient
bound-does-not-grow: absolute-only $steps absolute={1e-8,1e-9,1e-10}
  the bound is the same for gradients of every size. A right one of 1e6 is off by more than that
  because of h alone. Add a part that grows with the gradient
relative-only: {over-difference,over-dx,over-sum} $bounds;
    over-floor step={1e-5,1e-6} relative={1e-4,1e-5,1e-6}; {,of-larger} $steps absolute={0,1e-15}
  where the gradient is 0, the bound is 0, or 0 / 0, or smaller than the 1e-11 by which rounding
  changes the difference. Add a part that does not shrink and is large enough
bound-too-tight: absolute={1e-8,1e-9,1e-10} step={3e-4,1e-4} relative={1e-6,1e-7,1e-8};
    absolute={1e-8,1e-9,1e-10} step=3e-5 relative=1e-8
  right gradients fail where f is curved. There the difference itself is wrong by h h f''' / 6, and
  the part of the bound that grows with the gradient allows less
relative-part-too-large: relative={0.01,0.02,0.05,0.1,0.5}
  the bound allows 1 % of a gradient, or more. The differences are far more accurate than that
nan-passes: {compared-with-above,worst-of-all} $bounds
  A NaN passes, because error > bound is false for it and std::max drops it. Write !(error <=
  bound), which is true for a NaN
infinity-allows-itself: {of-larger,of-dx} $bounds
  the bound grows with dx. Where dx is Inf, the bound is Inf, and Inf <= Inf is true. Let the bound
  grow with the difference, or require that dx is finite
sign-kept: {too-large-only,too-small-only} $bounds
  a gradient that is off in one direction passes. The error needs std::abs
sizes-compared: sizes-compared $bounds
  |dx| and |difference| were compared, so that a wrong sign passes. Compare |dx - difference| with
  the bound
first-component-only: first-component-only $bounds
  only the first component decides. Return true after the loop, not inside it
last-component-only: last-component-only $bounds
  only the last component decides. After one wrong component the gradient must stay wrong
last-component-forgotten: last-component-forgotten $bounds
  the last component was not checked. The loop ends one component too early
compared-for-equality: compared-for-equality $bounds
  dx and the difference were compared with == or !=. Both are rounded, so that right ones differ.
  Compare with a bound
one-right-is-enough: one-right-is-enough $bounds
  the gradient passes if one component is right. All components must be right
sums-compared: sums-compared $bounds
  the sums of all components were compared, so that errors that cancel pass. Compare each component
norms-compared: norms-compared $bounds
  the norms were compared, so that a wrong sign or two exchanged components pass. Compare each
  component
directions-compared: directions-compared $bounds
  the angle between dx and the differences was compared, so that a factor of 2 passes. Compare each
  component
one-bound-for-all: {norm-of-errors,largest,mean} $steps relative={1e-3,1e-4,1e-5,1e-6}
  the errors were compared with the size of the whole gradient, so that a wrong small component
  passes. Compare each component
verdict-inverted: verdict-inverted $bounds
  right and wrong are exchanged
)");

constexpr size_t MOST_QUESTIONS = 20000;

// Returns the function's answer, how it called f, and which number has changed.
template <class Any>
static std::string shown(const Any& way, const Function& f, const Numbers& at, const Numbers& dx) {
  struct Stopped {
    const char* why;
  };
  size_t questions = 0;
  bool above = false, below = false, several = false;
  double step = 0;
  const Function watched = [&](const Numbers& x) {
    if (x.size() != at.size()) throw Stopped{"f was asked of an x of another length"};
    if (++questions == MOST_QUESTIONS) throw Stopped{"f was asked 20000 times"};
    size_t different = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      if (x[i] == at[i]) continue;
      ++different;
      above = above || x[i] > at[i];
      below = below || x[i] < at[i];
      step = std::max(step, std::abs(x[i] - at[i]));
    }
    several = several || different > 1;
    return f(x);
  };
  Numbers x = at;
  std::string text;
  try {
    text = way.gradient_is_right(watched, x, dx) ? "right" : "wrong";
  } catch (const Stopped& stopped) {
    return stopped.why;
  }
  if (x.size() != at.size()) return text + ", and x has another length";
  for (size_t i = 0; i < x.size(); ++i)
    if (!(x[i] == at[i])) {
      text += ", and x[" + std::to_string(i) + "] is another number than before";
      break;
    }
  if (above != below) text += " (asked on one side)";
  if (!above && !below && !at.empty()) text += " (asked at x alone)";
  if (several) text += " (several numbers changed at once)";
  if (step > 5e-4) text += " (a large step)";
  if (step > 0 && step < 3e-9) text += " (a tiny step)";
  return text;
}

static void check_verdict(bool expected, const Function& f, const Numbers& x, const Numbers& dx,
                          const std::string& what) {
  const auto looks =
      exercise::looks<Way>(MISTAKES, [&](const Way& way) { return shown(way, f, x, dx); });
  const std::string got = shown(Answer{}, f, x, dx), word = expected ? "right" : "wrong";
  const bool ok = got.rfind(word, 0) == 0 && got.find("another") == std::string::npos;
  exercise::check_shown(ok, what + ": expected " + word + ", got " + got, got, looks);
}

// f and its gradient at x, with one component changed.
struct Example {
  Function f;
  Numbers x, dx;
  std::string what = "dx is the gradient";
  void is_right() const { check_verdict(true, f, x, dx, what); }
  void is_wrong() const { check_verdict(false, f, x, dx, what); }
  Example called(const std::string& name) const { return {f, x, dx, name}; }
  Example times(size_t i, double factor) const { return with(i, factor * dx[i]); }
  Example with(size_t i, double number) const {
    Example other = *this;
    other.dx[i] = number;
    const std::string index = "[" + std::to_string(i) + "]";
    other.what = "df/dx" + index + " is " + exercise::text(dx[i]) + ", dx" + index + " is " +
                 exercise::text(number);
    return other;
  }
};

// scale (sin x0 + x1 x2 + e^x3)
static Example mixed(double scale) {
  const Numbers x = {0.3, 1.1, -0.7, 0.1};
  return {
      [scale](const Numbers& x) { return scale * (std::sin(x[0]) + x[1] * x[2] + std::exp(x[3])); },
      x,
      {scale * std::cos(x[0]), scale * x[2], scale * x[1], scale * std::exp(x[3])}};
}

// A small component and a large one.
static Example small_beside_large() {
  const Numbers x = {0.6, 0.2, -0.4};
  return {[](const Numbers& x) { return std::sin(x[0]) + 3e-6 * std::sin(x[1]) - std::cos(x[2]); },
          x,
          {std::cos(x[0]), 3e-6 * std::cos(x[1]), std::sin(x[2])}};
}

static Example curved() {
  const Numbers x = {0.1, 0.35};
  return {[](const Numbers& x) { return std::sin(30 * x[0]) + std::cos(30 * x[1]); },
          x,
          {30 * std::cos(30 * x[0]), -30 * std::sin(30 * x[1])}};
}

// At its minimum in x1 and x2.
static Example minimum() {
  const Numbers x = {0.9, 0.25, -0.5};
  return {[](const Numbers& x) {
            return 1 + x[0] * x[0] + 50 * (x[1] - 0.25) * (x[1] - 0.25) +
                   50 * (std::cosh(x[2] + 0.5) - 1);
          },
          x,
          {2 * x[0], 0, 0}};
}

// A number that is added to all scores, x3, changes nothing but the last digits.
static Example shifted(double by) {
  const Numbers x = {0.3, -0.2, 0.7, by};
  const auto f = [](const Numbers& x) {
    double sum = 0, weighted = 0;
    for (int j = 0; j < 3; ++j) {
      sum += std::exp(x[j] + x[3]);
      weighted += std::exp(x[j] + x[3]) * (1 - j);
    }
    return 1 + weighted / sum;
  };
  double sum = 0;
  Numbers dx;
  for (int j = 0; j < 3; ++j) sum += std::exp(x[j]);
  for (int j = 0; j < 3; ++j) dx.push_back(std::exp(x[j]) / sum * (1 - j - (f(x) - 1)));
  dx.push_back(1e-17);
  return {f, x, dx};
}

// Causal attention of one head, where x is Q, K and V, f the sum of dO O.
static Example attention(const std::string& mistake = "") {
  constexpr int LENGTH = 3, DIM = 4, PART = LENGTH * DIM;
  constexpr double SCALE = 0.5;
  const Numbers x = exercise::numbers(exercise::random_numbers(3 * PART, 1));
  const Numbers dO = exercise::numbers(exercise::random_numbers(PART, 2));
  const auto row = [](const Numbers& a, int first) { return a.data() + first * DIM; };
  const auto dot = [](const double* a, const double* b) {
    double sum = 0;
    for (int d = 0; d < DIM; ++d) sum += a[d] * b[d];
    return sum;
  };
  const auto weights = [=](const Numbers& x, int i) {
    Numbers P(i + 1);
    double l = 0;
    for (int j = 0; j <= i; ++j) l += P[j] = std::exp(SCALE * dot(row(x, i), row(x, LENGTH + j)));
    for (double& p : P) p /= l;
    return P;
  };
  const Function f = [=](const Numbers& x) {
    double sum = 0;
    for (int i = 0; i < LENGTH; ++i) {
      const Numbers P = weights(x, i);
      for (int j = 0; j <= i; ++j) sum += P[j] * dot(row(dO, i), row(x, 2 * LENGTH + j));
    }
    return sum;
  };
  Numbers dx(3 * PART);
  for (int i = 0; i < LENGTH; ++i) {
    const Numbers P = weights(x, i);
    double D = 0;
    for (int j = 0; j <= i; ++j) D += P[j] * dot(row(dO, i), row(x, 2 * LENGTH + j));
    if (mistake == "no D") D = 0;
    for (int j = 0; j <= i; ++j) {
      const double dS = P[j] * (dot(row(dO, i), row(x, 2 * LENGTH + j)) - D);
      for (int d = 0; d < DIM; ++d) {
        const double of_q = mistake == "no scale" ? 1 : SCALE;
        const double of_k = mistake == "no scale in dK" ? 1 : of_q;
        dx[i * DIM + d] += of_q * dS * x[PART + j * DIM + d];
        dx[PART + j * DIM + d] += of_k * dS * x[i * DIM + d];
        dx[2 * PART + j * DIM + d] += P[j] * dO[i * DIM + d];
      }
    }
  }
  if (mistake == "dK and dV exchanged")
    std::swap_ranges(dx.begin() + PART, dx.begin() + 2 * PART, dx.begin() + 2 * PART);
  return {f, x, dx};
}

TEST_CASE("right: one number") {
  Example{[](const Numbers& x) { return x[0] * x[0]; }, {0.7}, {1.4}}.is_right();
}
TEST_CASE("right: a straight line through 0") {
  const auto line = [](const Numbers& slopes) {
    return Example{[slopes](const Numbers& x) {
                     double sum = 0;
                     for (size_t i = 0; i < x.size(); ++i) sum += slopes[i] * x[i];
                     return sum;
                   },
                   Numbers(slopes.size()), slopes};
  };
  line({1, -2, 0.5}).is_right();
  Numbers slopes;
  for (int i = 0; i < 30; ++i) slopes.push_back(0.17 * i - 1.9);
  line(slopes).is_right();
}
TEST_CASE("right: of size 1, 1e-6 and 1e6") {
  for (const double scale : {1.0, 1e-6, 1e6}) mixed(scale).is_right();
}
TEST_CASE("right: a straight line, steep") {
  Example{[](const Numbers& x) { return 1e6 * (0.9 * x[0] + 1.3 * x[1] - 0.7 * x[2]); },
          {0.7, 0.31, -0.43},
          {0.9e6, 1.3e6, -0.7e6}}
      .is_right();
}
TEST_CASE("right: 3e-6 beside 1") { small_beside_large().is_right(); }
TEST_CASE("right: f is curved") { curved().is_right(); }
TEST_CASE("right: a minimum, gradient 0") { minimum().is_right(); }
TEST_CASE("right: 0 but for rounding") {
  for (const double by : {0.1, -0.4, 0.55, 0.8, -1.2, 1.3}) shifted(by).is_right();
}
TEST_CASE("right: attention") { attention().is_right(); }
TEST_CASE("wrong: one component off by 1 %") {
  for (const double scale : {1.0, 1e6})
    for (size_t i = 0; i < 4; ++i) mixed(scale).times(i, i % 2 ? 0.99 : 1.01).is_wrong();
  for (size_t i = 0; i < 2; ++i) curved().times(i, 1.01).is_wrong();
}
TEST_CASE("wrong: a small component off by 2 %") {
  for (const double factor : {0.98, 1.02}) small_beside_large().times(1, factor).is_wrong();
}
TEST_CASE("wrong: a gradient of size 1e-6 off by 10 %") {
  for (size_t i = 0; i < 4; ++i) mixed(1e-6).times(i, i % 2 ? 0.9 : 1.1).is_wrong();
}
TEST_CASE("wrong: a sign, and all signs") {
  mixed(1).times(2, -1).is_wrong();
  Example all = mixed(1);
  for (double& one : all.dx) one = -one;
  all.called("dx is the gradient times -1").is_wrong();
}
TEST_CASE("wrong: a factor of 2 in all") {
  Example all = mixed(1);
  for (double& one : all.dx) one *= 2;
  all.called("dx is the gradient times 2").is_wrong();
  for (double& one : all.dx) one /= 4;
  all.called("dx is half of the gradient").is_wrong();
}
TEST_CASE("wrong: two components exchanged, and errors that cancel") {
  Example one = mixed(1);
  std::swap(one.dx[1], one.dx[2]);
  one.called("dx[1] and dx[2] are exchanged").is_wrong();
  Example other = mixed(1);
  other.dx[0] += 0.25;
  other.dx[3] -= 0.25;
  other.called("dx[0] is too large by 0.25, dx[3] too small by as much").is_wrong();
}
TEST_CASE("wrong: not 0 at a minimum, and 0 where it is not") {
  minimum().with(1, 1e-5).is_wrong();
  minimum().with(0, 0).is_wrong();
  Example{[](const Numbers& x) { return x[0]; }, {0.7}, {1}}.with(0, 0).is_wrong();
}
TEST_CASE("wrong: a NaN, Inf, and an f that is NaN") {
  for (size_t i = 0; i < 4; ++i) mixed(1).with(i, NOT_A_NUMBER).is_wrong();
  mixed(1).with(1, INF).is_wrong();
  mixed(1).with(3, -INF).is_wrong();
  Example{[](const Numbers& x) { return std::log(x[0]); }, {-1}, {-1}, "f is NaN"}.is_wrong();
}
TEST_CASE("wrong: attention without D, without a scale, dK and dV exchanged") {
  for (const char* const mistake : {"no D", "no scale in dK", "no scale", "dK and dV exchanged"})
    attention(mistake).called(std::string("attention, ") + mistake).is_wrong();
}
