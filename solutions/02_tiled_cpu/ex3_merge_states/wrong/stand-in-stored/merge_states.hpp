#pragma once
// Two sets of keys, each with its state; what is the state of both together?

#include <algorithm>
#include <cmath>

#include "exercises/02_tiled_cpu/tiles.hpp"

using tiles::State;  // m, l, o; State(dim) is that of no key at all: m = -inf, l = 0, o = 0

inline State merge(const State& a, const State& b) {
  float m = std::max(a.m, b.m);
  if (m == -tiles::kInfinity) m = 0;  // -inf - (-inf) would be NaN
  const float keep_a = std::exp(a.m - m);
  const float keep_b = std::exp(b.m - m);
  State both(static_cast<int64_t>(a.o.size()));
  both.m = m;
  both.l = keep_a * a.l + keep_b * b.l;
  for (size_t d = 0; d < both.o.size(); ++d) both.o[d] = keep_a * a.o[d] + keep_b * b.o[d];
  return both;
}
