#pragma once
// LSE and D of a row of queries, as the products' loop wants them.

#include <limits>

#include "exercises/support/todo.hpp"

struct Prepared {
  float LSE_log2, D;
};

// For one row of queries, O and dO have head_dim elements. LSE is the natural logarithm of the sum
// of the row's exponentials, and -Inf if all of its keys are masked. `exists` is false for the rows
// of the last tile that are past the end of Q, whose O, dO and LSE are not in memory.
//
// The loop computes, for each key,
//   P  = exp2(scale_log2 * s - LSE_log2)    scale_log2 = scale * log2(e)
//   dS = P * (dP - D)
// where s is the score, -Inf for a masked key, and 0 for a row that does not exist.
inline Prepared prepare(const float* O, const float* dO, int head_dim, float LSE, bool exists) {
  exercise::todo("TODO(22.4): LSE and D of a row");
}
