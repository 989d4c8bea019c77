#pragma once
// The online softmax of a query that may see no key: of a tile, or of all.

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

constexpr float NEG_INF = -std::numeric_limits<float>::infinity();

struct State {
  float m = NEG_INF;  // max s
  float l = 0;        // sum of e^(scale (s - m))
  float o = 0;        // sum of e^(scale (s - m)) v
};

// m' = max(m, largest of s),   l and o *= e^(scale (m - m'))
// s: a tile of scores; of a key that is hidden it is -inf. scale > 0.
inline void raise_row_max(State& state, const std::vector<float>& s, float scale) {
  const float before = state.m;
  for (size_t j = 0; j < s.size(); ++j) state.m = std::max(state.m, s[j]);
  const float subtrahend = state.m == NEG_INF ? 0 : state.m;
  const float rescale = std::exp(scale * (before - subtrahend));
  state.l *= rescale;
  state.o *= rescale;
}

// Returns p = e^(scale (s - m)) of each score, and adds them to l. m is the new one already.
inline std::vector<float> exponentiate(State& state, const std::vector<float>& s, float scale) {
  const float subtrahend = state.m == NEG_INF ? 0 : state.m;
  std::vector<float> weights;
  for (const float score : s) {
    weights.push_back(std::exp(scale * (score - subtrahend)));
    state.l += weights.back();
  }
  return weights;
}

struct Row {
  float O, LSE;
};

// O = o / l and LSE = scale m + ln l; 0 and -inf if no key was seen.
inline Row store_output(const State& state, float scale) {
  const bool saw_nothing = state.m == NEG_INF && state.l == 0;
  Row row = {0, NEG_INF};
  if (!saw_nothing) {
    row.O = state.o / state.l;
    row.LSE = scale * (state.m + std::log(state.l));
  }
  return row;
}
