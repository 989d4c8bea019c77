#pragma once
// With h = 1e-5 and an f of about 1, rounding leaves an error of 1e-11, a hundredth of ABSOLUTE. If
// f''' is a thousand times the gradient, curvature leaves 1e-8 of the gradient. Both are far below
// the errors that the check must find. The bound depends on the difference alone. If it contained
// dx, an Inf would allow itself.

#include <cmath>
#include <functional>
#include <vector>

using Function = std::function<double(const std::vector<double>&)>;

// dx is as long as x. Returns true if every component of dx is that of the gradient of f at x. x is
// the same afterwards.
inline bool gradient_is_right(const Function& f, std::vector<double>& x,
                              const std::vector<double>& dx) {
  constexpr double STEP = 1e-5, RELATIVE = 1e-4, ABSOLUTE = 1e-9;
  for (size_t i = 0; i < x.size(); ++i) {
    const double kept = x[i];
    x[i] = kept + STEP;
    const double above = f(x);
    x[i] = kept - STEP;
    const double below = f(x);
    x[i] = kept;
    const double difference = (above - below) / (2 * STEP);
    const double bound = ABSOLUTE + RELATIVE * std::abs(difference);
    if (!(std::abs(dx[i] - difference) <= bound)) return false;  // a NaN is wrong, too
  }
  return true;
}
