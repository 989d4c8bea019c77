#pragma once
// Row k starts k cycles late, because the sum needs k cycles to come down to row k, and no cell can
// hold a number back until the sum arrives.
#include <cstdint>

constexpr int kNothing = -1;

// A is [M, K], the array has K rows, and k is one of them. kNothing means that nothing enters in
// this cycle.
inline int row_of_A(int k, int cycle, int M, int K) {
  const int m = cycle - k;
  return m >= 0 && m < M ? m : kNothing;
}
