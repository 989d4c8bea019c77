#pragma once
// The online softmax of a query that may see no key of a tile, or none at all.

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "exercises/support/todo.hpp"

constexpr float NEG_INF = -std::numeric_limits<float>::infinity();

struct State {
  float m = NEG_INF;  // max s
  float l = 0;        // sum of e^(scale (s - m))
  float o = 0;        // sum of e^(scale (s - m)) v
};

// m' = max(m, largest of s),   l and o *= e^(scale (m - m'))
// s is a tile of scores, where the score of a masked key is -inf. scale > 0.
inline void raise_row_max(State& state, const std::vector<float>& s, float scale) {
  exercise::todo("TODO(09.4): m, and the factor of l and o, even if m stays -inf");
}

// Returns p = e^(scale (s - m)) of each score, and adds them to l. m is the new one already.
inline std::vector<float> exponentiate(State& state, const std::vector<float>& s, float scale) {
  exercise::todo("TODO(09.4): the weights, even if m is -inf");
}

struct Row {
  float O, LSE;
};

// O = o / l and LSE = scale m + ln l; 0 and -inf if no key was seen.
inline Row store_output(const State& state, float scale) {
  exercise::todo("TODO(09.4): O and LSE, and those of a row that saw nothing");
}
