#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <gradient_check.hpp>
#include <limits>
#include <string>
#include <vector>

#include "exercises/support/verdict.hpp"

using exercise::Numbers;

constexpr double INF = std::numeric_limits<double>::infinity();
constexpr double NOT_A_NUMBER = std::numeric_limits<double>::quiet_NaN();

// The function as people write it: right as it stands here, each mistake is a change to it.
struct Way {
  double step = 1e-5, relative = 1e-4, absolute = 1e-9;
  enum Difference {
    kCentral,
    kForward,
    kBackward,
    kForwardHalved,
    kNotHalved,
    kNotDivided,
    kTimesStep,
    kTurned,
    kNothing,
    kFp32
  } difference = kCentral;
  enum PutBack { kCopy, kNot, kByAdding, kNotIfWrong } put_back = kCopy;
  enum Bound {
    kOfDifference,
    kOfLarger,
    kOfDx,
    kAbsoluteOnly,
    kOverDifference,
    kOverDx,
    kOverSum,
    kOverFloor,
    kEqual
  } bound = kOfDifference;
  enum Error { kSize, kTooLarge, kTooSmall, kOfSizes } error = kSize;
  enum Compared {
    kEach,
    kNanPasses,
    kNanPassesUnlessLast,
    kFirst,
    kLast,
    kAllButLast,
    kOne,
    kSum,
    kNorms,
    kNormOfErrors,
    kLargest,
    kDirection,
    kMean
  } compared = kEach;
  bool inverted = false, early = false;

  bool within(double dx, double slope) const {
    double off = error == kTooLarge   ? dx - slope
                 : error == kTooSmall ? slope - dx
                 : error == kOfSizes  ? std::abs(std::abs(dx) - std::abs(slope))
                                      : std::abs(dx - slope);
    if (bound == kEqual) return dx == slope;
    const double larger = std::max(std::abs(dx), std::abs(slope));
    double allowed = bound == kAbsoluteOnly ? absolute
                     : bound == kOfLarger   ? absolute + relative * larger
                     : bound == kOfDx       ? absolute + relative * std::abs(dx)
                                            : absolute + relative * std::abs(slope);
    if (bound >= kOverDifference) {
      allowed = relative;
      off /= bound == kOverDifference ? std::abs(slope)
             : bound == kOverDx       ? std::abs(dx)
             : bound == kOverSum      ? std::abs(dx) + std::abs(slope)
                                      : std::max(std::abs(dx) + std::abs(slope), 1e-8);
    }
    return compared == kNanPasses ? !(off > allowed) : off <= allowed;
  }

  bool gradient_is_right(const Function& f, Numbers& x, const Numbers& dx) const {
    Numbers slopes;
    bool first = true, last = true, all = true, one = false;
    for (size_t i = 0; i < x.size(); ++i) {
      if (compared == kAllButLast && i + 1 == x.size()) break;
      const double kept = x[i];
      const auto ask = [&] {
        const double result = f(x);
        return difference == kFp32 ? static_cast<double>(static_cast<float>(result)) : result;
      };
      const bool one_sided =
          difference == kForward || difference == kBackward || difference == kForwardHalved;
      const double here = one_sided ? ask() : 0;
      double above = here, below = here;
      if (difference != kBackward) {
        x[i] = difference == kNothing ? kept : kept + step;
        above = ask();
      }
      if (difference != kForward && difference != kForwardHalved) {
        x[i] = put_back == kByAdding    ? x[i] - 2 * step
               : difference == kNothing ? kept
                                        : kept - step;
        below = ask();
      }
      double slope = (above - below) / (2 * step);
      if (difference == kForward || difference == kBackward || difference == kNotHalved)
        slope = (above - below) / step;
      if (difference == kNotDivided) slope = above - below;
      if (difference == kTurned) slope = (below - above) / (2 * step);
      if (difference == kTimesStep) slope = (above - below) / 2 * step;
      slopes.push_back(slope);
      last = within(dx[i], slope);
      if (i == 0) first = last;
      if ((put_back == kNotIfWrong || (put_back == kNot && early)) && !last) return false;
      if (put_back == kByAdding) x[i] += step;
      if (put_back != kByAdding && put_back != kNot) x[i] = kept;
      if (early && !last) return false;
      all = all && last;
      one = one || last;
    }
    return inverted != verdict(dx, slopes, first, last, one, all);
  }

  bool verdict(const Numbers& dx, const Numbers& slopes, bool first, bool last, bool one,
               bool all) const {
    double sum_dx = 0, sum = 0, of_dx = 0, of_slopes = 0, of_errors = 0, dot = 0, size = 0, off = 0;
    double largest_error = 0, largest = 0;
    bool not_a_number = false;
    double worst = 0;  // in bounds
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
      largest_error = std::max(largest_error, e);
      largest = std::max(largest, std::abs(slopes[i]));
      not_a_number = not_a_number || std::isnan(e);
      worst = std::max(e / (absolute + relative * std::abs(slopes[i])), worst);
    }
    if (not_a_number) largest_error = NOT_A_NUMBER;
    switch (compared) {
      case kNanPassesUnlessLast:
        return worst <= 1;
      case kFirst:
        return first;
      case kLast:
        return last;
      case kOne:
        return one;
      case kSum:
        return within(sum_dx, sum);
      case kNorms:
        return within(std::sqrt(of_dx), std::sqrt(of_slopes));
      case kNormOfErrors:
        return std::sqrt(of_errors) <= absolute + relative * std::sqrt(of_slopes);
      case kLargest:
        return largest_error <= absolute + relative * largest;
      case kMean:
        return off <= absolute + relative * size;
      case kDirection:
        return dot >= (1 - relative) * std::sqrt(of_dx * of_slopes);
      default:
        return all;
    }
  }
};

// What the learner wrote, to be called as a Way is.
struct Answer {
  bool gradient_is_right(const Function& f, Numbers& x, const Numbers& dx) const {
    return ::gradient_is_right(f, x, dx);
  }
};

using Wrong = exercise::Wrong<Way>;

// A mistake with several steps and bounds: whoever makes it has chosen some.
static std::vector<Way> with_bounds(const std::vector<Way>& ways) {
  std::vector<Way> all;
  for (Way way : ways)
    for (const double step : {1e-4, 1e-5, 1e-6})
      for (const double relative : {1e-3, 1e-4, 1e-5}) {
        way.step = step;
        way.relative = relative;
        way.absolute = relative == 1e-4 ? 1e-9 : 1e-8;
        all.push_back(way);
      }
  return all;
}

static std::vector<Way> with_steps(const std::vector<double>& steps) {
  std::vector<Way> all;
  for (const double step : steps)
    for (const double relative : {1e-3, 1e-4, 1e-5, 1e-6})
      for (const double absolute : {1e-8, 1e-9})
        all.push_back({.step = step, .relative = relative, .absolute = absolute});
  return all;
}

static std::vector<Way> with_absolute(Way::Bound bound, const std::vector<double>& absolutes) {
  std::vector<Way> all;
  for (const double absolute : absolutes)
    for (const double step : {1e-4, 1e-5, 1e-6})
      all.push_back({.step = step, .absolute = absolute, .bound = bound});
  return all;
}

static std::vector<Way> one_sided() {
  std::vector<Way> all;
  for (const Way::Difference difference : {Way::kForward, Way::kBackward, Way::kForwardHalved})
    for (Way way : with_steps({1e-4, 1e-5, 1e-6, 1e-7, 1e-8})) {
      way.difference = difference;
      all.push_back(way);
    }
  return all;
}

static std::vector<Way> one_bound() {
  std::vector<Way> all;
  for (const Way::Compared compared : {Way::kNormOfErrors, Way::kLargest, Way::kMean})
    for (const double step : {1e-4, 1e-5, 1e-6})
      for (const double relative : {1e-3, 1e-4, 1e-5, 1e-6})
        all.push_back({.step = step, .relative = relative, .compared = compared});
  return all;
}

static std::vector<Way> too_tight() {
  std::vector<Way> all;
  for (const double absolute : {1e-8, 1e-9, 1e-10})
    for (const double step : {3e-4, 1e-4, 3e-5, 1e-5})
      for (const double relative : {1e-5, 1e-6, 1e-7, 1e-8})
        if (relative < 100 * step * step)
          all.push_back({.step = step, .relative = relative, .absolute = absolute});
  return all;
}

static std::vector<Way> joined(std::vector<Way> a, const std::vector<Way>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

static const std::vector<Wrong>& wrong_ways() {
  using W = Way;
  static const std::vector<Wrong> wrong = {
      {"one-sided-difference",
       "f was asked on one side of x; that errs by h f'' / 2, which is all there is where f' is 0: "
       "ask above and below",
       one_sided()},
      {"not-halved", "f(x + h) - f(x - h) was divided by h; the two are 2 h apart",
       with_bounds({{.difference = W::kNotHalved}})},
      {"not-divided-by-two-steps",
       "f(x + h) - f(x - h) was not divided by 2 h; a / 2 * h is (a / 2) * h: a / (2 * h)",
       with_bounds({{.difference = W::kNotDivided}, {.difference = W::kTimesStep}})},
      {"difference-turned-round",
       "f(x - h) - f(x + h) was taken, so that every slope has the wrong sign; above minus below",
       with_bounds({{.difference = W::kTurned}})},
      {"x-not-changed", "f was never asked of another x; was a copy of the number changed?",
       with_bounds({{.difference = W::kNothing}})},
      {"computed-in-fp32",
       "f was stored in a float; 7 digits leave nothing of a difference of 2 h: double",
       with_bounds({{.difference = W::kFp32}})},
      {"step-too-small",
       "h is so small that f(x + h) and f(x - h) differ in their last digits only; 1e-16 |f| / h "
       "is far above the bound",
       joined(with_steps({1e-8, 1e-9, 1e-10, 1e-11, 1e-12, 1e-13, 1e-14, 1e-15, 1e-16}),
              {{.step = 1e-7, .relative = 1e-3},
               {.step = 1e-7, .relative = 1e-4},
               {.step = 1e-7, .relative = 1e-5},
               {.step = 1e-7, .relative = 1e-6}})},
      {"step-too-large",
       "h is so large that f is no straight line over 2 h; h h f''' / 6 is far above the bound",
       with_steps({1e-3, 1e-2, 1e-1, 1})},
      {"not-put-back",
       "x is not what it was: a number was changed and stayed so, and all differences behind it "
       "are of another x",
       with_bounds({{.put_back = W::kNot}, {.put_back = W::kNot, .early = true}})},
      {"put-back-by-adding",
       "a number was put back by + h; x + h - 2 h + h has not always the bits of x: keep a copy",
       with_bounds({{.put_back = W::kByAdding}, {.put_back = W::kByAdding, .early = true}})},
      {"not-put-back-if-wrong",
       "the function returned before it put the number back; first put it back, then judge",
       with_bounds({{.put_back = W::kNotIfWrong}})},
      {"absolute-part-too-large",
       "the bound allows more than 1 % of a small gradient, so that a wrong one of 3e-6 passes; "
       "the part that does not grow with the gradient has to stay far below",
       joined(with_absolute(W::kOfDifference, {1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7}),
              with_absolute(W::kAbsoluteOnly, {1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7}))},
      {"bound-does-not-grow",
       "the bound is the same for gradients of every size; a right one of 1e6 is off by more "
       "because of h alone: a part that grows with the gradient",
       with_absolute(W::kAbsoluteOnly, {1e-8, 1e-9, 1e-10})},
      {"relative-only",
       "where the gradient is 0 the bound is 0, or smaller than the 1e-11 by which rounding puts "
       "the difference off, or 0 / 0: add a part that does not shrink, and is large enough",
       joined(joined(with_bounds({{.bound = W::kOverDifference},
                                  {.bound = W::kOverDx},
                                  {.bound = W::kOverSum}}),
                     {{.relative = 1e-4, .bound = W::kOverFloor},
                      {.relative = 1e-5, .bound = W::kOverFloor},
                      {.relative = 1e-6, .bound = W::kOverFloor},
                      {.step = 1e-6, .relative = 1e-4, .bound = W::kOverFloor},
                      {.step = 1e-6, .relative = 1e-5, .bound = W::kOverFloor},
                      {.step = 1e-6, .relative = 1e-6, .bound = W::kOverFloor}}),
              joined(with_absolute(W::kOfDifference, {0, 1e-15}),
                     with_absolute(W::kOfLarger, {0, 1e-15})))},
      {"bound-too-tight",
       "right gradients fail where f is curved: there the difference itself errs by h h f''' / 6, "
       "and the part of the bound that grows with the gradient allows less",
       too_tight()},
      {"relative-part-too-large",
       "the bound allows 1 % of a gradient, or more; the differences are far better than that",
       {{.relative = 0.01},
        {.relative = 0.02},
        {.relative = 0.05},
        {.relative = 0.1},
        {.relative = 0.5}}},
      {"nan-passes",
       "a NaN passes: error > bound is false for it, and std::max drops it; !(error <= bound) is "
       "true",
       with_bounds({{.compared = W::kNanPasses}, {.compared = W::kNanPassesUnlessLast}})},
      {"infinity-allows-itself",
       "the bound grows with dx; where dx is Inf the bound is Inf, and Inf <= Inf: let it grow "
       "with the difference, or ask for a finite dx",
       with_bounds({{.bound = W::kOfLarger}, {.bound = W::kOfDx}})},
      {"sign-kept", "a gradient that is off in one direction passes; the error needs std::abs",
       with_bounds({{.error = W::kTooLarge}, {.error = W::kTooSmall}})},
      {"sizes-compared",
       "|dx| and |difference| were compared, so that a wrong sign passes: |dx - difference|",
       with_bounds({{.error = W::kOfSizes}})},
      {"first-component-only",
       "only the first component decides: return true after the loop, not in it",
       with_bounds({{.compared = W::kFirst}})},
      {"last-component-only",
       "only the last component decides; a wrong one before it has to stay wrong",
       with_bounds({{.compared = W::kLast}})},
      {"last-component-forgotten",
       "the last component was not looked at; the loop ends one too early",
       with_bounds({{.compared = W::kAllButLast}})},
      {"compared-for-equality",
       "dx and the difference were compared with == or !=; both are rounded, so right ones differ: "
       "a bound",
       with_bounds({{.bound = W::kEqual}})},
      {"one-right-is-enough", "the gradient passes if one component is right; all have to be",
       with_bounds({{.compared = W::kOne}})},
      {"sums-compared",
       "the sums of all components were compared; errors that cancel pass: each by itself",
       with_bounds({{.compared = W::kSum}})},
      {"norms-compared",
       "the norms were compared; a wrong sign or two components exchanged pass: each by itself",
       with_bounds({{.compared = W::kNorms}})},
      {"directions-compared",
       "the angle between dx and the differences was looked at; a factor of 2 passes: each "
       "component by itself",
       with_bounds({{.compared = W::kDirection}})},
      {"one-bound-for-all",
       "the errors were held against the size of the whole gradient; a small component that is "
       "wrong drowns in the others: each by itself",
       one_bound()},
      {"verdict-inverted", "right and wrong are exchanged", with_bounds({{.inverted = true}})},
  };
  return wrong;
}

constexpr size_t MOST_QUESTIONS = 20000;

// What the function says, how it asked, and which number is not what it was.
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
      exercise::looks(wrong_ways(), [&](const Way& way) { return shown(way, f, x, dx); });
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

// A small component beside a large one.
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

// Causal attention of one head: x is Q, K and V, f the sum of dO O.
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
    Numbers P;
    double l = 0;
    for (int j = 0; j <= i; ++j) P.push_back(std::exp(SCALE * dot(row(x, i), row(x, LENGTH + j))));
    for (const double p : P) l += p;
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
