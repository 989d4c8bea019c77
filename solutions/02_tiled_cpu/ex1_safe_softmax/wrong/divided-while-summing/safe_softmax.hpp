#pragma once
// softmax(x)_i = e^(x_i - m) / l, with m = max x and l = sum of all e^(x_j - m).

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <vector>

// x and a have the same length, at least 1.
inline void safe_softmax(std::span<const float> x, std::span<float> a) {
  float m = x[0];
  for (size_t i = 1; i < x.size(); ++i) {
    if (x[i] > m) m = x[i];
  }
  float sum = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    a[i] = std::exp(x[i] - m);
    sum += a[i];
    a[i] /= sum;
  }
}
