#pragma once
// The numbers that enter row k of a weight-stationary array, cycle by cycle.
#include <cstdint>
#include "exercises/support/todo.hpp"

constexpr int kNothing = -1;

// A is [M, K], the array has K rows, and k is one of them. kNothing means that nothing enters in
// this cycle.
inline int row_of_A(int k, int cycle, int M, int K) {
  exercise::todo("TODO(18.1): the row of A whose number k enters in this cycle, or kNothing");
}
