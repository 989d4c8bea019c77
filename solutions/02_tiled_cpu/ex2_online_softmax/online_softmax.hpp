#pragma once
// l is a sum of e^(x_j - m). If m' replaces m, each term changes by the factor e^(m - m'), and so
// does l. The factor is at most 1. At the first score it is e^(-inf) = 0, because there is nothing
// to correct.

#include <algorithm>
#include <cmath>
#include <limits>

struct Running {
  float m = -std::numeric_limits<float>::infinity();  // the largest score so far
  float l = 0;                                        // sum of e^(x - m) over the scores so far
};

// The next score of the row.
inline void see(Running& state, float x) {
  const float m_new = std::max(state.m, x);
  state.l = state.l * std::exp(state.m - m_new) + std::exp(x - m_new);
  state.m = m_new;
}
