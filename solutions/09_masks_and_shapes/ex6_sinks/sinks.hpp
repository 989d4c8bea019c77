#pragma once
// Why both functions agree: a sink alone is the state m = sink / scale, l = 1, o = 0, and states
// merge in any order. Why one lane counts it: the four lanes' sums are added up. Why l may be 1
// without a sink: m is -inf then, so the first key multiplies l by 0, and without a key the row is
// 0 / 1 = 0 with LSE = -inf + ln 1.

#include <algorithm>
#include <cmath>
#include <limits>

constexpr float NEG_INF = -std::numeric_limits<float>::infinity();

struct State {
  float m = NEG_INF;  // max s
  float l = 0;        // sum of e^(scale (s - m))
  float o = 0;        // sum of e^(scale (s - m)) v
};

// Returns the state of one of a row's four lanes, 0 to 3, before the first key. The lanes' l and o
// will be added up. sink is compared with scale s, and -inf is no sink. scale > 0.
inline State first_state(float sink, float scale, int lane) {
  return {sink / scale, lane == 0 ? 1.0f : 0.0f, 0.0f};
}

// Adds the sink to the state of a whole row, whose lanes are added up and did not count it.
inline void add_sink(State& row, float sink, float scale) {
  const float m_new = std::max(row.m, sink / scale);
  const float minus = m_new == NEG_INF ? 0.0f : m_new;
  const float rescale = std::exp(scale * (row.m - minus));
  const float weight = std::exp(sink - scale * minus);
  row = {m_new, row.l * rescale + weight, row.o * rescale};
}
