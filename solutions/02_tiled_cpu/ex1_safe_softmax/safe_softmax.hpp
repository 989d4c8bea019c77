#pragma once
// It is safe because no exponent is above 0, so that no term is above 1, and because one term is 1,
// so that l is not 0. It is still softmax because numerator and denominator have lost the same
// factor e^m.

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <vector>

inline void safe_softmax(std::span<const float> x, std::span<float> a) {
  float m = -std::numeric_limits<float>::infinity(), l = 0;
  for (size_t i = 0; i < x.size(); ++i) m = std::max(m, x[i]);
  for (size_t i = 0; i < x.size(); ++i) l += std::exp(x[i] - m);
  for (size_t i = 0; i < x.size(); ++i) a[i] = std::exp(x[i] - m) / l;
}
