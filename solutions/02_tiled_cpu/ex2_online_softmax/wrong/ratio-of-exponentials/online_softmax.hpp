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
  const float m_new = std::max(state.m, x);
  state.l = state.l * (std::exp(state.m) / std::exp(m_new)) + std::exp(x - m_new);
  state.m = m_new;
}
