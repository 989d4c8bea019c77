#pragma once
// x * 0 is 0 unless x is NaN or Inf. The sum of all x * 0 keeps either, where a maximum would drop
// a NaN.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

// Fills n, which has as many elements as x, with the nearest multiples of one scale, x ~ scale * n,
// and returns the scale. The largest |x| becomes 127 or -127. If all x are 0, the scale is 1. If
// one is NaN or Inf, the scale is NaN, and n may be anything.
inline float quantize(const std::vector<float>& x, std::vector<int8_t>& n) {
  float largest = 0, zero = 0;
  for (const float value : x) {
    largest = std::max(largest, std::abs(value));
    zero += value * 0;
  }
  largest += zero;
  if (!std::isfinite(largest)) return std::numeric_limits<float>::quiet_NaN();
  const float scale = largest == 0 ? 1 : largest / 127;
  for (size_t i = 0; i < x.size(); ++i) n[i] = static_cast<int8_t>(std::nearbyint(x[i] / scale));
  return scale;
}
