#pragma once
// A group of numbers in 8 bits.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "exercises/support/todo.hpp"

// Fills n, which has as many elements as x, with the nearest multiples of one scale, x ~ scale * n,
// and returns the scale. The largest |x| becomes 127 or -127. If all x are 0, the scale is 1. If
// one is NaN or Inf, the scale is NaN, and n may be anything.
inline float quantize(const std::vector<float>& x, std::vector<int8_t>& n) {
  exercise::todo("TODO(17.1): the scale, and each number as a multiple of it");
}
