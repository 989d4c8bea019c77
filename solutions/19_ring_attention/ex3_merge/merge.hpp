#pragma once
// In this form the weight is between 0 and 1 for every difference, because 1 / Inf is 0. The
// logarithm's argument is between 1 and 2, because the exponent is never above 0.

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

constexpr float INF = std::numeric_limits<float>::infinity();

// o [dim] and lse become those of both together, in place. lse is the natural logarithm of the sum
// of e^s. While no key was seen lse is -INF and o is 0. If lse_b is -INF, o_b may be anything.
inline void merge_row(std::vector<float>& o, float& lse, const std::vector<float>& o_b,
                      float lse_b) {
  if (lse_b == -INF) return;  // 0 times an o_b that is NaN is NaN, and so is -INF - (-INF)
  const float weight = 1 / (1 + std::exp(lse - lse_b));
  for (size_t d = 0; d < o.size(); ++d) o[d] -= weight * (o[d] - o_b[d]);
  lse = std::max(lse, lse_b) + std::log1p(std::exp(-std::abs(lse - lse_b)));
}
