#pragma once
#include <algorithm>
#include <cmath>
#include <limits>

struct Running {
  float m = -std::numeric_limits<float>::infinity();  // the largest score so far
  float l = 0;                                        // sum of e^(x - m) over the scores so far
};

// The next score of the row.
inline void see(Running& state, float x) {
  const float m_before = state.m;
  state.m = std::max(m_before, x);
  state.l = state.l + std::exp(m_before - state.m) * std::exp(x - state.m);
}
