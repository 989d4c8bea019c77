#pragma once
// A row of the softmax with a sink, a score that its sum counts and its output does not.

#include <algorithm>
#include <cmath>
#include <limits>

#include "exercises/support/todo.hpp"

constexpr float NEG_INF = -std::numeric_limits<float>::infinity();

struct State {
  float m = NEG_INF;  // max s
  float l = 0;        // sum of e^(scale (s - m))
  float o = 0;        // sum of e^(scale (s - m)) v
};

// Returns the state of one of a row's four lanes, 0 to 3, before the first key. The lanes' l and o
// will be added up. sink is compared with scale s, and -inf is no sink. scale > 0.
inline State first_state(float sink, float scale, int lane) {
  exercise::todo("TODO(09.6): m and l of a lane");
}

// Adds the sink to the state of a whole row, whose lanes are added up and did not count it.
inline void add_sink(State& row, float sink, float scale) {
  exercise::todo("TODO(09.6): m, l and o with the sink, even if it is the largest score");
}
