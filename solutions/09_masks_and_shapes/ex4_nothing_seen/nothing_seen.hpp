#pragma once
// 0 replaces -inf in the exponent. As long as a row has seen no key, all its scores are -inf, and
// e^(-inf - 0) = 0 is the right weight. m and l decide together, because an l of 0 with a finite m
// is an error, and so is a NaN that the maximum dropped. The result must show both errors.

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

inline float subtrahend(float m) { return m == NEG_INF ? 0.0f : m; }

// m' = max(m, largest of s),   l and o *= e^(scale (m - m'))
// s is a tile of scores, where the score of a masked key is -inf. scale > 0.
inline void raise_row_max(State& state, const std::vector<float>& s, float scale) {
  float m_new = state.m;
  for (const float score : s) m_new = std::max(m_new, score);
  const float rescale = std::exp(scale * (state.m - subtrahend(m_new)));
  state.m = m_new;
  state.l *= rescale;
  state.o *= rescale;
}

// Returns p = e^(scale (s - m)) of each score, and adds them to l. m is the new one already.
inline std::vector<float> exponentiate(State& state, const std::vector<float>& s, float scale) {
  std::vector<float> p;
  for (const float score : s) {
    p.push_back(std::exp(scale * (score - subtrahend(state.m))));
    state.l += p.back();
  }
  return p;
}

struct Row {
  float O, LSE;
};

// O = o / l and LSE = scale m + ln l; 0 and -inf if no key was seen.
inline Row store_output(const State& state, float scale) {
  if (state.m == NEG_INF && state.l == 0) return {0, NEG_INF};
  return {state.o / state.l, scale * state.m + std::log(state.l)};
}
