#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <vector>

inline void safe_softmax(std::span<const float> x, std::span<float> a) {
  const float m = *std::max_element(x.begin(), x.end());
  float l = 0;
  for (const float value : x) l += std::exp(value) - m;
  for (size_t i = 0; i < x.size(); ++i) a[i] = (std::exp(x[i]) - m) / l;
}
