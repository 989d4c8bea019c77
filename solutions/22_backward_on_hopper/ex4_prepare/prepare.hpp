#pragma once
// LSE is +Inf past the end, because exp2(x - Inf) is 0 for every x below +Inf, including -Inf. D is
// 0 there, because 0 * NaN is NaN, so that a P of 0 does not help if D is NaN.

#include <limits>

struct Prepared {
  float LSE_log2, D;
};

// For one row of queries, O and dO have head_dim elements. LSE is the natural logarithm of the sum
// of the row's exponentials, and -Inf if all of its keys are masked. `exists` is false for the rows
// of the last tile that are past the end of Q, whose O, dO and LSE are not in memory.
inline Prepared prepare(const float* O, const float* dO, int head_dim, float LSE, bool exists) {
  constexpr float INF = std::numeric_limits<float>::infinity(), LOG2_E = 1.4426950408889634f;
  if (!exists) return {INF, 0};
  float D = 0;
  for (int d = 0; d < head_dim; ++d) D += O[d] * dO[d];
  if (LSE == -INF) return {INF, D};
  return {LSE * LOG2_E, D};
}
