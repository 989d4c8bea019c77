#pragma once
// Who enters row k of a weight-stationary array, cycle by cycle.
#include <cstdint>

constexpr int kNothing = -1;

// A is [M, K]; the array has K rows, and k is one of them. kNothing: nothing enters in this cycle.
inline int row_of_A(int k, int cycle, int M, int K) {
  const int since = cycle - k;  // cycles since row 0 of A entered here
  if (since < 0) return kNothing;
  return since % M;
}
