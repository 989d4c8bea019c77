#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <vector>

inline void safe_softmax(std::span<const float> x, std::span<float> a) {
  float m = 0, l = 0;
  for (size_t i = 0; i < x.size(); ++i) m = std::max(m, x[i]);
  for (size_t i = 0; i < x.size(); ++i) l += std::exp(x[i] - m);
  for (size_t i = 0; i < x.size(); ++i) a[i] = std::exp(x[i] - m) / l;
}
