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
  state.m = std::max(state.m, x);
  state.l += std::exp(x - state.m);
}
