#pragma once

#include <cstdint>

constexpr int kNothing = -1;

// A is [M, K]; the array has K rows. kNothing: nothing enters in this cycle.
inline int row_of_A(int k, int cycle, int M, int K) {
  const int m = cycle - k;
  return m > 0 && m < M ? m : kNothing;
}
