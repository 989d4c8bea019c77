#pragma once

#include <vector>

#include "exercises/18_systolic_array/results.hpp"

inline void collect(Results& C, int cycle, const std::vector<double>& below, int K) {
  for (int n = 0; n < C.cols; ++n) C.put(cycle - (K - 1) - n, n, below[n]);
}
