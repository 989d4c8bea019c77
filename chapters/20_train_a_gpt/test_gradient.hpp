#pragma once
// Compares gradients with central differences in float64.

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "common/problem.hpp"

namespace fa::ch20 {

// Normal numbers with deviation 1 and mean 0.
inline std::vector<double> normal_values(int64_t count, uint64_t seed) {
  const std::vector<float> values = random_values(std::vector{count}, Dtype::f32, seed, 0);
  std::vector<double> result(values.begin(), values.end());
  for (double& x : result) x -= 0.5;
  return result;
}

// a − b| ≤ bound · (1 + |b|), false for a NaN
inline bool close(double a, double b, double bound) {
  return std::abs(a - b) <= bound * (1 + std::abs(b));
}

// `gradient` holds dL/dx for L = loss() at x. The error of central differences is h² times L's
// third derivative plus 1e-16 / h of rounding, about 1e-10 at this h, for the values of these
// tests.
inline void check_gradient(const std::string& name, std::span<double> x,
                           std::span<const double> gradient, const std::function<double()>& loss) {
  constexpr double h = 1e-5;
  REQUIRE(x.size() == gradient.size());
  for (size_t i = 0; i < x.size(); ++i) {
    const double at = x[i];
    x[i] = at + h;
    const double above = loss();
    x[i] = at - h;
    const double below = loss();
    x[i] = at;
    const double expected = (above - below) / (2 * h);
    if (!close(gradient[i], expected, 1e-8)) {
      FAIL(name << "[" << i << "]: " << gradient[i] << ", central differences say " << expected);
    }
  }
}

}  // namespace fa::ch20
